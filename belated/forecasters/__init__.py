"""Forecasters: what plays under delay. One file each, the readable form and the compiled form side by side."""

from belated.forecasters.base import Forecaster
from belated.forecasters.bold import BOLD
from belated.forecasters.direct import Direct
from belated.forecasters.paced import Paced
from belated.forecasters.qpmd import QPMD
from belated.forecasters.sdb import SDB

__all__ = ["BOLD", "QPMD", "SDB", "Direct", "Forecaster", "Paced"]
