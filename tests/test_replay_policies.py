"""Policies with known probabilities are weighed by their whole distribution, as Open Bandit Pipeline does it."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import belated as bl
from belated.cli import app
from belated.errors import InvalidArgument
from belated.replay import read_log
from belated.replay.model import Forward

PEER = Path(__file__).with_name("obp_peer.py")


def sample():
    """A small log in the form of the Open Bandit data, whose draws are the same in all versions of NumPy."""
    draws = np.random.RandomState(13)
    law = draws.dirichlet(np.ones(4), 400) * 0.8 + 0.05
    actions = (draws.rand(400, 1) < law.cumsum(axis=1)).argmax(axis=1)
    frame = pl.DataFrame({"item_id": actions, "propensity_score": law[np.arange(400), actions]})
    frame = frame.with_columns(click=(draws.rand(400) < 0.03 + 0.05 * actions).astype(int), position=actions % 3)
    wanted = draws.dirichlet(np.ones(4), 400)
    return frame.with_columns(wanted=pl.Series(wanted.tolist())), wanted


COLUMNS = {"action": "item_id", "probability": "propensity_score", "reward": "click"}
#: What obp 0.5.7 says of the sample (tests/obp_peer.py), with the model of belated.
SAID = {}


def asked(log, law):
    """The arrays that the peer is asked about."""
    model = Forward(log)
    expected = np.stack([model(np.full(len(log), action)) for action in range(log.actions)], axis=1)
    return {"reward": log.reward, "action": log.action, "chance": log.probability, "law": law, "model": expected}


def peer(arrays, folder):
    np.savez(folder / "log.npz", **arrays)
    ran = [os.environ["BELATED_OBP_PYTHON"], str(PEER), str(folder / "log.npz")]
    return json.loads(subprocess.run(ran, check=True, capture_output=True, text=True).stdout)
