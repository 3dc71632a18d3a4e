# asyncagents: every target prepares .venv first when it is missing or older than the lock.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp
UV      = $(shell command -v uv || echo $(BIN)/uv)
CODE    = $(wildcard src tests scripts benchmarks examples)

# bash counts its own SECONDS and may leak it: only `make soak SECONDS=60` sets ours.
SOAK_SECONDS := $(if $(filter command line,$(origin SECONDS)),$(SECONDS),1200)

NEED_UV = test -x "$(UV)" || $(BIN)/pip install --quiet --require-hashes -r requirements/uv.txt
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

# Compiled imports start faster; this undoes an environment that forbids them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test quick check spec reference bench soak lock catalog clean

setup: $(STAMP)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): requirements/dev.txt pyproject.toml | $(BIN)/python
	@$(NEED_UV)
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	touch $@

demo: $(STAMP)
	$(BIN)/asyncagents demo

# Six at a time on two cores: many tests wait for processes.
test: $(STAMP)
	$(BIN)/pytest -n 6 --dist worksteal $(if $(filter tests%,$(ARGS)),,tests) $(ARGS)

# Less than a minute: no processes, no PostgreSQL.
quick: $(STAMP)
	ASYNCAGENTS_EXAMPLES=few $(BIN)/pytest -q -n 3 --dist worksteal -m "not slow" -k "not postgres" tests/unit tests/contract $(ARGS)
	$(BIN)/python -m tests.simulation.hunt --seeds 20

check: $(STAMP)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports
	$(BIN)/python scripts/sizes.py
	$(BIN)/python scripts/words.py

spec: $(STAMP)
	$(BIN)/python scripts/spec.py

# docs/library.md, from the docstrings of the public names.
reference: $(STAMP)
	$(BIN)/python scripts/library_reference.py

# `make bench FULL=1` runs the large counts too.
bench: $(STAMP)
	$(BIN)/python -m benchmarks $(if $(FULL),--full)

soak: $(STAMP)
	$(BIN)/python -m tests.soak --seconds $(SOAK_SECONDS)

# `make lock UPGRADE=1` also moves pins that still fit.
lock: | $(BIN)/python
	@$(NEED_UV)
	$(COMPILE) pyproject.toml -o requirements/base.txt
	$(COMPILE) pyproject.toml --all-extras --group dev -c requirements/base.txt -o requirements/dev.txt
	echo uv | $(COMPILE) - -o requirements/uv.txt
	$(COMPILE) tests/peer/fastmcp/requirements.in -o tests/peer/fastmcp/requirements.txt

# Prices and limits of models, from the packages of the lock.
catalog: $(STAMP)
	$(BIN)/python scripts/catalog.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
