# `make demo` and `make test` set everything up themselves; all else runs in the same .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OTHER_PYTHONS ?= 3.12 3.13
SUITE := -m pytest -q -n 2 --dist worksteal

.PHONY: demo test check nightly lint bench mutants wheel docs clean

demo: $(STAMP)
	$(BIN)/python examples/digits.py

# One test in five, of each file one at least, chosen by the commit.
test: $(STAMP)
	$(BIN)/python $(SUITE) --loops 4 --sample 5

# All tests, with every fourth case of the longest loops over the ops (all of them: `make check LOOPS=1`). .ci/run runs
# `make test` before, and here what that left out.
LOOPS = 4
check: $(STAMP)
	$(BIN)/python $(SUITE) --loops $(LOOPS) $(BUT)

# All that takes too long for each change: the suite on other Pythons, as pyenv or the PATH has them, on the last of them
# with every warm call past Python from the first one; what those calls touch on each; 20,000 hostile files, 2,000 random
# gradient programs, 1,000 random scripts, 20,000 random array programs, 5,000 random programs for capture, the planted faults.
LAST_PYTHON = $(lastword $(OTHER_PYTHONS))
CALLS = tests/tracing tests/runtime tests/optim tests/nn

nightly: $(STAMP) $(addprefix nightly-,$(OTHER_PYTHONS))
	JITGRAPH_DISPATCH=1 $(BIN)/python $(SUITE) $(CALLS)
	CUDA_DTYPES=all CUDA_MODELS=all CUDA_PROCESSORS=all $(BIN)/python -m pytest -q -n 2 tests/codegen/cuda tests/cuda
	DISPATCH_ROUNDS=1000000 $(BIN)/python -m pytest -q tests/tracing/native tests/eager/dispatch
	$(BIN)/python -m tests.fuzz --files 20000
	AMP_MODELS=all $(BIN)/python -m pytest -q tests/amp
	GRADIENT_PROGRAMS=2000 $(BIN)/python -m pytest -q -n 2 tests/ops/test_gradient_programs.py
	SCRIPT_PROGRAMS=1000 $(BIN)/python -m pytest -q tests/tracing/script/test_script_programs.py
	ARRAY_PROGRAMS=20000 $(BIN)/python -m pytest -q -n 2 tests/programs/test_array_texts.py
	CAPTURE_PROGRAMS=5000 $(BIN)/python -m pytest -q -n 2 tests/tracing/capture/test_capture_programs.py
	$(BIN)/python tests/mutants/run.py

nightly-%:
	@python=$$(ls -d $(HOME)/.pyenv/versions/$*.*/bin/python 2>/dev/null | tail -n 1); \
	python=$${python:-$$(command -v python$*)}; \
	if [ -z "$$python" ]; then echo "skipped: the suite on Python $*, which is not installed"; exit 0; fi; \
	set -e; $$python -m venv $(VENV)-$*; $(VENV)-$*/bin/pip install --quiet --disable-pip-version-check -e '.[dev]'; \
	if [ $* = $(LAST_PYTHON) ]; then JITGRAPH_DISPATCH=1 $(VENV)-$*/bin/python $(SUITE) -p no:cacheprovider; exit; fi; \
	$(VENV)-$*/bin/python $(SUITE) -p no:cacheprovider; \
	JITGRAPH_DISPATCH=1 $(VENV)-$*/bin/python $(SUITE) -p no:cacheprovider $(CALLS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/public_types.py

bench: $(STAMP)
	$(BIN)/python -m bench

mutants: $(STAMP)
	$(BIN)/python tests/mutants/run.py

# The source distribution, the wheel made from it, and both tried: an empty environment runs the demo from elsewhere.
wheel: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --quiet --outdir dist .
	$(BIN)/python tests/wheel.py dist

# The site of docs/, in build/site: nothing is fetched when it is built, nor when it is read.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	$(BIN)/python -m tests.guide.site build/site

$(VENV)/.docs: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-* build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
