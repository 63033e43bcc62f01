"""Forecasters: what plays under delay. One file each, the readable form and the compiled form side by side."""

from belated.forecasters.base import Forecaster
from belated.forecasters.bold import BOLD
from belated.forecasters.direct import Direct
from belated.forecasters.qpmd import QPMD

__all__ = ["BOLD", "QPMD", "Direct", "Forecaster"]
