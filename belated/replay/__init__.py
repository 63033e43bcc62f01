"""What would another forecaster have earned? Answered from logged decisions with recorded probabilities and delays.

`log.py` reads and checks a log, `follow.py` lets a forecaster live on its rounds, `estimate.py` turns that into
estimates with intervals, `replay.py` puts them together.
"""

from belated.replay.log import Log, read_log
from belated.replay.replay import Answer, Replay, replay

__all__ = ["Answer", "Log", "Replay", "read_log", "replay"]
