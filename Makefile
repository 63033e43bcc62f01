# make run    set up, then a first study with a table and a figure
# make test   set up, then every check (what CI runs)
# make bench  speed against other packages and a C++ loop, side by side
# make serve  set up, then the decision service on the file belated.db
# make soak   the long forms of the tests
# make gpu    the tests that need an NVIDIA GPU, where there is one
# make coverage   the tests under coverage, at least 95%
# make test-short PYTHON=python3.13 VENV=.venv-3.13   a few minutes of them, on another Python
# make services   install what some tests need beside Python (PostgreSQL, chromium, nginx); as root, on Debian

PYTHON ?= python3
# What share of the code the tests must reach, in percent.
COVERED ?= 95
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The tests that also run without compilation.
PLAIN := $(addprefix tests/test_,kernels.py elementary.py saving.py certificate.py games.py delays.py sampling.py \
	replace.py sizes.py bad_kernels.py gpucb.py late.py late_bounds.py hints.py sapo.py) \
	$(addprefix tests/test_cbp.py::test_,only_a_probability_of_all_draws_is_stated \
	a_full_table_is_emptied more_pairs_than_a_word_holds) tests/test_lanes.py::test_in_plain_python_it_does_so_for_every_learner

# What another Python could break: every module's import and examples, both forms, saving, the ledger on a file.
SHORT := belated $(addprefix tests/test_,kernels.py compile.py forecasters.py play.py saving.py sqlite.py ledger.py)

.PHONY: run test test-short coverage bench serve soak gpu lint clean services

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $(STAMP)

run: $(STAMP)
	$(BIN)/belated paper --out results/paper

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict # not --quiet, which hides warnings from --strict too

# Twice: compiled, and as plain Python. Compiled code is kept in .cache (.cache-3.13 for .venv-3.13). In CI it is
# watched, line by line; in plain Python coverage sees into the kernels.
WATCHED := coverage $(if $(filter true,$(CI)),test)
$(WATCHED): WATCH := --cov --cov-report=
$(WATCHED): ENOUGH := --cov --cov-append --cov-report=term:skip-covered --cov-fail-under=$(COVERED)
test test-short coverage: export BELATED_CACHE_DIR := $(CURDIR)/$(VENV:.venv%=.cache%)
test: lint $(if $(filter true,$(CI)),services)
coverage: $(STAMP)
test coverage:
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup $(WATCH)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n 2 --dist loadgroup $(PLAIN) $(ENOUGH)

test-short: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup $(SHORT) -k "not postgresql"
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q -n 2 --dist loadgroup tests/test_kernels.py tests/test_saving.py

bench: $(STAMP)
	$(BIN)/python benchmarks/run.py

serve: $(STAMP)
	$(BIN)/belated serve

soak: $(STAMP)
	$(BIN)/python -m pytest tests -m "soak and not gpu" -q

# An environment of its own: what the tests elsewhere take of NVIDIA is of another version.
gpu:
	test -x .venv-gpu/bin/python || $(PYTHON) -m venv .venv-gpu
	.venv-gpu/bin/python -m pip install --quiet --editable ".[cuda]" pytest pytest-xdist
	BELATED_CACHE_DIR=$(CURDIR)/.cache-gpu .venv-gpu/bin/python -m pytest tests/test_gpu.py -m gpu -q

services:
	sh tools/services.sh

clean:
	rm -rf .venv .venv-* .cache .cache-* results site dist build .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis
