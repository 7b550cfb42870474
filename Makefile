# `make demo` and `make test` set everything up themselves; all else runs in the same .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test nightly lint bench mutants clean

demo: $(STAMP)
	$(BIN)/python examples/digits.py

test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

nightly: $(STAMP)
	$(BIN)/python -m tests.fuzz --files 20000

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m bench

mutants: $(STAMP)
	$(BIN)/python tests/mutants/run.py

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
