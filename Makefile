# `make demo` and `make test` set everything up themselves; all else runs in the same .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OTHER_PYTHONS ?= 3.12 3.13
SUITE := -m pytest -q -n 2 --dist worksteal

.PHONY: demo test check nightly lint bench trend mutants wheel docs clean

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

# All that takes too long for each change. Each part, once it has passed, leaves a stamp for this commit, so that a run that
# was cut off goes on where it stopped: `make nightly`, or one part, `make nightly-cuda`. The suite runs on other Pythons, as
# pyenv or the PATH has them: with a check that each public function is called, and on the last of them with every warm call
# past Python from the first one.
LAST_PYTHON = $(lastword $(OTHER_PYTHONS))
CALLS = tests/tracing tests/runtime tests/optim tests/nn
PARTS = calls cuda rounds files models gradients scripts arrays captures sizes opinfo onnx shipped mutants $(OTHER_PYTHONS)
NIGHT := build/nightly/$(shell git diff --quiet HEAD 2>/dev/null && git rev-parse HEAD || date +%s)

nightly: $(addprefix $(NIGHT)/,$(PARTS))

nightly-%: $(NIGHT)/%
	@echo "$* has passed on this commit"

passed = mkdir -p $(NIGHT) && touch $@

$(NIGHT)/calls: $(STAMP)  # the native form of calls
	JITGRAPH_DISPATCH=1 $(BIN)/python $(SUITE) $(CALLS)
	@$(passed)

$(NIGHT)/cuda: $(STAMP)  # every dtype, model and processor, in the simulator and by the assembler
	CUDA_DTYPES=all CUDA_MODELS=all CUDA_PROCESSORS=all $(BIN)/python $(SUITE) tests/codegen/cuda tests/cuda
	@$(passed)

$(NIGHT)/rounds: $(STAMP)  # references and memory over a million warm calls, and Ctrl-C at 300 moments
	DISPATCH_ROUNDS=1000000 $(BIN)/python $(SUITE) tests/tracing/native tests/eager/dispatch
	INTERRUPTED_COMPILATIONS=300 $(BIN)/python $(SUITE) tests/tracing/test_interrupts.py -k any_moment_of_a_compilation
	@$(passed)

$(NIGHT)/files: $(STAMP)  # hostile files
	$(BIN)/python -m tests.fuzz --files 20000
	HOSTILE_PROGRAMS=5000 $(BIN)/python $(SUITE) tests/torch/export/test_files.py -k random
	HOSTILE_ARCHIVES=20000 $(BIN)/python $(SUITE) tests/torch/jit/test_hostile_archives.py
	@$(passed)

$(NIGHT)/onnx: $(STAMP)  # every op with every dtype as an ONNX model; the cases of onnx's own backends, and hostile models
	ONNX_EXPORT_CASES=all HOSTILE_ONNX_MODELS=5000 $(BIN)/python $(SUITE) tests/onnx
	$(BIN)/python -m tests.onnx.backend_cases --fail wrong,error
	$(BIN)/python -m tests.onnx.backend_cases --compiled --fail wrong,error
	@if $(TORCH_PYTHON) -c "import onnxruntime" 2>/dev/null; then set -e; $(TORCH_PYTHON) -m tests.onnx.shipped_models $(ONNX_MODELS); \
	if $(TORCH_PYTHON) -c "import onnxscript, pytest" 2>/dev/null; then \
	ONNX_TORCH_MODELS=all $(TORCH_PYTHON) -m pytest -q tests/onnx/test_torch_models.py; $(TORCH_PYTHON) -m tests.onnx.optimised_models; fi; \
	if $(TORCH_PYTHON) -c "import skl2onnx" 2>/dev/null; then $(TORCH_PYTHON) -m tests.onnx.sklearn_models; fi; \
	else echo "skipped: models that packages ship, in folders and wheels of ONNX_MODELS; they need ONNX Runtime in TORCH_PYTHON"; fi
	@$(passed)

$(NIGHT)/models: $(STAMP)  # mixed precision of all models
	AMP_MODELS=all $(BIN)/python $(SUITE) tests/amp
	@$(passed)

$(NIGHT)/gradients: $(STAMP)
	ELEMENT_PROGRAMS=1000 $(BIN)/python $(SUITE) tests/transforms/test_element_programs.py
	GRADIENT_PROGRAMS=2000 $(BIN)/python $(SUITE) tests/ops/test_gradient_programs.py
	@$(passed)

$(NIGHT)/scripts: $(STAMP)
	ATTRIBUTE_PROGRAMS=1000 SCRIPT_PROGRAMS=20000 $(BIN)/python $(SUITE) tests/tracing/script/test_script_programs.py tests/tracing/script/test_function_objects.py
	WRITE_PROGRAMS=1000 STATE_PROGRAMS=1000 $(BIN)/python $(SUITE) tests/codegen/test_element_writes.py tests/codegen/test_state_programs.py
	REBINDING_PROGRAMS=2000 $(BIN)/python $(SUITE) tests/tracing/script/test_joined_tensors.py
	VIEW_PROGRAMS=2000 $(BIN)/python $(SUITE) tests/torch/test_view_programs.py
	VERSION_PROGRAMS=1000 $(BIN)/python $(SUITE) tests/torch/test_version_programs.py
	@$(passed)

$(NIGHT)/arrays: $(STAMP)
	ARRAY_PROGRAMS=5000 $(BIN)/python $(SUITE) tests/programs/test_array_texts.py
	@$(passed)

$(NIGHT)/captures: $(STAMP)
	CAPTURE_PROGRAMS=5000 $(BIN)/python $(SUITE) tests/tracing/capture/test_capture_programs.py
	@$(passed)

$(NIGHT)/sizes: $(STAMP)  # arithmetic of sizes
	SIZE_FORMULAS=2000 $(BIN)/python $(SUITE) tests/tracing/test_size_arithmetic.py
	@$(passed)

TORCH_PYTHON = $(BIN)/python
$(NIGHT)/opinfo: $(STAMP)  # PyTorch's samples of ops, modules and optimisers, where TORCH_PYTHON has PyTorch
	@if ! $(TORCH_PYTHON) -c "import torch" 2>/dev/null; then echo "skipped: PyTorch's samples; set TORCH_PYTHON"; exit 0; fi; \
	set -e; $(TORCH_PYTHON) -m tests.torch.opinfo --what ops,modules,optimizers --samples 2 --check; $(passed)

$(NIGHT)/shipped: $(STAMP)  # PyTorch's models and modules as files for C, and the programs that its packages ship
	@if ! $(TORCH_PYTHON) -c "import torch" 2>/dev/null; then echo "skipped: programs of PyTorch; set TORCH_PYTHON"; exit 0; fi; \
	set -e; $(TORCH_PYTHON) -m tests.torch.saved_programs; $(TORCH_PYTHON) -m tests.torch.shipped_programs; $(passed)

$(NIGHT)/mutants: $(STAMP)  # the planted faults
	$(BIN)/python tests/mutants/run.py
	@$(passed)

$(NIGHT)/3.%:
	@python=$$(ls -d $(HOME)/.pyenv/versions/3.$*.*/bin/python 2>/dev/null | tail -n 1); \
	python=$${python:-$$(command -v python3.$*)}; \
	if [ -z "$$python" ]; then echo "skipped: the suite on Python 3.$*, which is not installed"; exit 0; fi; \
	set -e; $$python -m venv $(VENV)-3.$*; $(VENV)-3.$*/bin/pip install --quiet --disable-pip-version-check -e '.[dev]'; \
	if [ 3.$* = $(LAST_PYTHON) ]; then JITGRAPH_DISPATCH=1 $(VENV)-3.$*/bin/python $(SUITE) --loops $(LOOPS) -p no:cacheprovider; \
	else $(VENV)-3.$*/bin/python $(SUITE) --loops $(LOOPS) --public-calls -p no:cacheprovider; fi; \
	$(passed)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/public_types.py

bench: $(STAMP)
	$(BIN)/python -m bench

# Size and speed beside the last release's, which fail nothing.
trend: $(STAMP)
	$(BIN)/python -m bench.trend

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
