"""What Open Bandit Pipeline says of a log. Run by a Python that has `obp` 0.5.7, which is for Python < 3.11:

    python3.10 -m venv peer && peer/bin/pip install --no-deps obp==0.5.7
    peer/bin/pip install "numpy<2" pandas scikit-learn scipy tqdm pyyaml seaborn matplotlib
    peer/bin/python tests/obp_peer.py data          # where the logs are that it ships
    peer/bin/python tests/obp_peer.py log.npz       # its estimates, as JSON

`log.npz` has the arrays reward, action, chance (of the logged action), law (decisions x actions, the policy's) and
model (decisions x actions). Only its policies need torch, which an empty module stands in for.
"""

import importlib.machinery
import importlib.util
import json
import sys
import types
from pathlib import Path


def load():
    """The estimators alone, without the parts of the package that need torch."""
    where = Path(importlib.util.find_spec("obp").submodule_search_locations[0])
    package = types.ModuleType("obp")
    package.__path__ = [str(where)]
    sys.modules["obp"] = package
    if importlib.util.find_spec("torch") is None:
        torch = types.ModuleType("torch")
        torch.__spec__ = importlib.machinery.ModuleSpec("torch", None)
        torch.Tensor = torch.tensor = type("Tensor", (), {})
        sys.modules["torch"] = torch
    from obp.ope import estimators

    return where, estimators


def main():
    where, estimators = load()
    if sys.argv[1] == "data":
        print(where / "dataset" / "obd")
        return
    import numpy as np

    log = np.load(sys.argv[1])
    given = {"reward": log["reward"], "action": log["action"], "pscore": log["chance"]}
    given["position"] = np.zeros(len(log["reward"]), int)
    given["action_dist"] = log["law"][:, :, None]
    weighted = estimators.InverseProbabilityWeighting().estimate_policy_value(**given)
    normalised = estimators.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**given)
    given["estimated_rewards_by_reg_model"] = log["model"][:, :, None]
    robust = estimators.DoublyRobust().estimate_policy_value(**given)
    print(json.dumps({"ips": float(weighted), "snips": float(normalised), "dr": float(robust)}))


if __name__ == "__main__":
    main()
