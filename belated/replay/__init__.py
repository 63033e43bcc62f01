"""What would another forecaster have earned? Answered from logged decisions with recorded probabilities and delays.

`read.py` reads and checks a log, `follow.py` lets a forecaster live on its rounds, `policy.py` knows the probabilities
of a policy, `estimate.py` turns either into estimates with intervals, `replay.py` puts them together.
"""

from belated.replay.answer import Answer, Replay
from belated.replay.log import Log
from belated.replay.read import read_log
from belated.replay.replay import replay

__all__ = ["Answer", "Log", "Replay", "read_log", "replay"]
