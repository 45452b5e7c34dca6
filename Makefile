# Every target sets itself up: `make demo` and `make test` are all a fresh machine needs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PIP    := $(BIN)/python -m pip install -qq --disable-pip-version-check
LOCKED := $(PIP) --no-deps --only-binary :all: --require-hashes

.PHONY: demo test fuzz lint format golden pictures models bench lock clean

demo: $(READY)
	$(BIN)/attnviz run "I am learning this"

# A file of tests goes to one worker: some of its tests share what takes long to make.
test: $(READY)
	$(BIN)/pytest -q -n auto --dist loadfile

# Calls that nobody would make on purpose, seven times as many as the tests make.
fuzz: $(READY)
	$(BIN)/pytest -q -n auto --dist load tests/test_hostile.py --calls 20000

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Rewrites the expected outputs; read the difference before committing it.
golden: $(READY)
	$(BIN)/pytest -q tests/test_golden.py tests/test_sections.py tests/test_steps.py tests/test_readme.py --update-golden
	git diff --stat -- tests/golden README.md docs

# Draws the pictures of the README again.
pictures: $(READY)
	PATH="$(abspath $(BIN)):$$PATH" docs/pictures.sh

# Trains the models that come with attnviz again.
models: $(READY)
	$(BIN)/python -m attnviz.learning.shipping
	git diff --stat -- attnviz/traces/models

bench: $(READY)
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/pictures.py
	$(BIN)/python benchmarks/exports.py
	$(BIN)/python benchmarks/learning.py
	$(BIN)/python benchmarks/inspection.py
	$(BIN)/python -m benchmarks.page

# Resolves the dependencies again; a version stays as long as it fits, but for: make lock UPGRADE=--upgrade
COMPILE = build/uv/bin/uv pip compile -q --universal --python-version 3.10 --generate-hashes \
	--annotation-style line --custom-compile-command "make lock" $(UPGRADE)
lock: $(READY)
	$(PIP) --target build/uv --upgrade uv==0.13.9
	$(COMPILE) --extra dev --extra models pyproject.toml -o requirements.lock
	echo torch | $(COMPILE) --no-config -c requirements.lock - -o requirements-cuda.lock
	git diff --stat -- '*.lock'

clean:
	rm -rf $(VENV)

# No file is installed whose SHA-256 sum is not in a lock; nothing is resolved, and nothing built but
# attnviz itself. torch's CPU build is taken where there is one. The other one for Linux needs NVIDIA's
# libraries even without a GPU.
$(READY): pyproject.toml requirements.lock requirements-cpu.lock requirements-cuda.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "attnviz needs Python 3.10 or newer: make PYTHON=python3.12 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(LOCKED) -r requirements-cpu.lock 2>/dev/null || true
	$(LOCKED) -r requirements.lock
	$(BIN)/python -c 'from importlib.metadata import requires; exit("nvidia" in str(requires("torch")))' \
		|| $(LOCKED) -r requirements-cuda.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@
