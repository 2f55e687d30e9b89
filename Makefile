# Every target makes what it needs: `make demo` and `make test` work right after `git clone`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test test-fast lint bench docs clean

$(VENV)/.app: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.app
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/.app          ## a feature carried over three sessions, no API key
	@$(BIN)/python -m handoff.surfaces.cli.main demo

test: $(VENV)/.dev          ## the whole suite
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-fast: $(VENV)/.dev     ## the suite without the slow tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

lint: $(VENV)/.dev          ## style, types, floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.dev         ## speed, as ratios within one run
	$(BIN)/python -m bench

docs: $(VENV)/.dev          ## regenerate what is generated: reference, terminal picture
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) build dist
