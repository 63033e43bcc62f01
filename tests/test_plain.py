"""One source, two uses: with NUMBA_DISABLE_JIT=1 the very same kernels and loop run as plain Python."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from tests.traces import traces


def test_plain_python_equals_compiled(tmp_path):
    file = tmp_path / "plain.npz"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-W", "error", "-m", "tests.traces", str(file)], check=True, env=environment)
    plain = np.load(file)
    compiled = traces()
    assert set(plain.files) == set(compiled)
    for name, values in compiled.items():
        np.testing.assert_allclose(plain[name], values, rtol=1e-12, err_msg=name)
