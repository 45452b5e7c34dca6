# Every target sets itself up: `make demo` and `make test` are all a fresh machine needs. There are
# two stamps: what runs attnviz is installed first, what tests it only when it is needed.

VENV   := .venv
ifeq ($(OS),Windows_NT)
PYTHON ?= python
BIN    := $(VENV)/Scripts
else
PYTHON ?= python3
BIN    := $(VENV)/bin
endif
LOCKED_PACKAGES := $(VENV)/.packages
READY  := $(VENV)/.ready
TESTED := $(VENV)/.ready-to-test
PIP    := $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check
LOCKED := $(PIP) --no-deps --only-binary :all: --require-hashes

.PHONY: demo test test-rest test-all fuzz lint format golden pictures notebook models bench docs wheel lock clean

# What it imports it also compiles, and no more: that saves a third of the time.
demo: $(READY)
	PYTHONDONTWRITEBYTECODE= $(BIN)/attnviz run "I am learning this"

# A file of tests goes to one worker: some of its tests share what takes long to make. What the tests
# import is compiled once, for the workers and for the hundreds of processes that they start.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q -n auto --dist loadfile --no-loadscope-reorder

# The quick tests: everything once. tests/tiers.py says what is slow.
test: $(TESTED)
	$(PYTEST) -m "not slow"

# The tests that `make test` leaves out, and those of which it tries only few random examples.
test-rest: $(TESTED)
	$(PYTEST) -m "slow or hypothesis"

test-all: $(TESTED)
	$(PYTEST)

# Random calls, runs and comparisons, thirteen times as many as the tests draw.
fuzz: $(TESTED)
	$(BIN)/pytest -q -n auto --dist load tests/test_hostile.py tests/test_true_sentences.py \
		tests/test_true_comparisons.py --times 13

lint: $(TESTED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(TESTED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Rewrites the expected outputs, and the tree of files; read the difference before committing it.
golden: $(TESTED)
	$(BIN)/python docs/write_tree.py
	$(BIN)/pytest -q tests/test_golden.py tests/test_sections.py tests/test_steps.py tests/test_readme.py --update-golden
	git diff --stat -- tests/golden README.md docs

# Draws the pictures of the README again.
pictures: $(TESTED)
	PATH="$(abspath $(BIN)):$$PATH" docs/pictures.sh

# Runs docs/attnviz.ipynb, and stores what its cells show.
notebook: $(READY)
	$(BIN)/python docs/notebook.py

# Trains the models that come with attnviz again.
models: $(READY)
	$(BIN)/python docs/train_models.py
	git diff --stat -- attnviz/traces/models

bench: $(TESTED)
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/pictures.py
	$(BIN)/python benchmarks/exports.py
	$(BIN)/python benchmarks/learning.py
	$(BIN)/python benchmarks/explore.py
	$(BIN)/python benchmarks/inspection.py
	$(BIN)/python benchmarks/research.py
	$(BIN)/python benchmarks/long_texts.py
	$(BIN)/python benchmarks/ranks.py
	$(BIN)/python benchmarks/listening.py
	$(BIN)/python -m benchmarks.page

# The documentation as a site that needs no server, with its links checked: build/site/index.html
docs: $(TESTED)
	$(BIN)/python docs/build_site.py

# What is published: the source distribution, and the wheel, tried in an environment of its own
# outside of the repository.
wheel: $(READY)
	rm -rf dist
	$(BIN)/python -m hatchling build
	MAKE="$(MAKE)" .ci/try-wheel dist/attnviz-*.whl

# Resolves the dependencies again; a version stays as long as it fits, but for: make lock UPGRADE=--upgrade
# What running attnviz does not need goes into a lock of its own.
COMPILE = build/uv/bin/uv pip compile -q --universal --python-version 3.10 --generate-hashes \
	--annotation-style line --custom-compile-command "make lock" $(UPGRADE)
lock: $(TESTED)
	$(PIP) --target build/uv --upgrade uv==0.13.9
	cat requirements.lock requirements-dev.lock > build/all.lock
	$(COMPILE) --extra explore --extra models --extra slides --group dev --group docs pyproject.toml -o build/all.lock
	$(COMPILE) --group checkout -c build/all.lock pyproject.toml -o requirements.lock
	awk '/==/ { kept = !($$0 in run) } NR == FNR { run[$$0]; next } /^#/ || kept' \
		requirements.lock build/all.lock > requirements-dev.lock
	echo torch | $(COMPILE) --no-config -c requirements.lock - -o requirements-cuda.lock
	(echo "# The versions of both locks, without their SHA-256 sums, for pip install -c (make lock)"; \
		sed -n 's/ *\\$$//; /==/p' requirements.lock requirements-dev.lock | sort) > constraints.txt
	git diff --stat -- '*.lock' constraints.txt

clean:
	rm -rf $(VENV)

# No file is installed whose SHA-256 sum is not in a lock; nothing is resolved, and nothing built but
# attnviz itself. torch's CPU build is taken where there is one. The other one for Linux needs NVIDIA's
# libraries even without a GPU.
$(LOCKED_PACKAGES): requirements.lock requirements-cpu.lock requirements-cuda.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "attnviz needs Python 3.10 or newer: make PYTHON=python3.12 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(LOCKED) -r requirements-cpu.lock 2>/dev/null || true
	$(LOCKED) -r requirements.lock
	$(BIN)/python -c 'from importlib.metadata import requires; exit("nvidia" in str(requires("torch")))' \
		|| $(LOCKED) -r requirements-cuda.lock
	@touch $@

$(READY): pyproject.toml $(LOCKED_PACKAGES)
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(TESTED): $(READY) requirements-dev.lock
	$(LOCKED) -r requirements-dev.lock
	$(BIN)/python -c 'import compileall, sysconfig; compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2, workers=0)'
	@touch $@
