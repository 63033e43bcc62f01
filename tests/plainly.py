"""Tests that need no compilation, and would compile much: run by the second half of make test."""

import pytest

from belated.kernels.compile import COMPILED

plain = pytest.mark.skipif(COMPILED, reason="run without compilation, by the second half of make test")
