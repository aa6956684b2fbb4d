# Two commands are all that a newcomer needs: make quickstart, make test. CI runs make test-all.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: quickstart test test-all cuda lint types layers tests slow pictures bench install clean

# A GPU that the driver lists gets the Triton softmax. Deferred, so that no other target asks for it.
QUICKSTART ?= configs/quickstart$(shell nvidia-smi -L 2>/dev/null | grep -q '^GPU' && echo -gpu).yaml

quickstart: install  ## install, then make a naive softmax faster, provably: in Triton on an NVIDIA GPU, else in C++
	@$(BIN)/python -m graph run $(QUICKSTART)

install: $(STAMP)

# torch first and pinned: otherwise the resolver may fetch a build with gigabytes of CUDA libraries. Of the pinned version pip may still take the CUDA
# build on Linux, unless an index of CPU builds is set (docs/first-run.md says how).
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=python3.x"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): about 600 MB to download where they are not cached"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

test: install lint types layers tests  ## format, lint, types, layers and the fast tests

test-all: cuda test slow  ## and whole runs, kills and measurements, and with NVIDIA's compiler what it says of CUDA

cuda: install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cuda]'

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: install
	$(BIN)/mypy

layers: install
	$(BIN)/lint-imports

# Whole runs wait a good deal; more than four at once would only be in each other's measurements.
WORKERS := -n auto --maxprocesses 4 --dist worksteal

tests: install
	$(BIN)/pytest -m "not slow" $(WORKERS)

slow: install
	$(BIN)/pytest -m slow $(WORKERS)

pictures: install  ## the pictures of README.md, and what it and docs/ draw from the code
	$(BIN)/python -m benchmarks.pictures
	$(BIN)/python -m tests.readme

bench: install  ## the table of speeds in benchmarks/
	$(BIN)/python benchmarks/speed.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
