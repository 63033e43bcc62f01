"""Studies: what to simulate, as data, and what to make of it.

    study = bl.studies.Study.read("study.toml")     # or Study.make(forecasters=[...], games=[...], ...)
    results = study.run("results/mine")             # finished cells are kept, a second run reuses them
    results.frame()                                 # polars; also curves(), replications()
    results.plot("regret.png")
    results.report("results/mine")                  # one self-contained page, figures, Parquet
    results.compare(bl.studies.Results.load("results/other"))

A study is cells (`cells.py`); cells are run (`run.py`, `on_ray.py`) and kept (`store.py`); what is kept is read back as
results (`results.py`) and shown (`report.py`, `page.py`, `figures.py`). `paper/` is the study of the paper.
"""

from belated.studies.cells import Play
from belated.studies.results import Results
from belated.studies.run import CellsFailed, Local, OnGPU
from belated.studies.study import Study, StudyProblems

__all__ = ["CellsFailed", "Local", "OnGPU", "Play", "Results", "Study", "StudyProblems"]
