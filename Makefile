# Every target makes what it needs: `make demo` and `make test` work right after `git clone`,
# with python3, git and make alone. Another interpreter: make PYTHON=python3.12 test
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
# Half of what a test does is waiting, so four of them keep two cores busy.
PYTEST := $(BIN)/python -m pytest --dist worksteal -n 4
# Tests start thousands of processes: without compiled modules each would compile them anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow test-unsandboxed test-clients script-packages hunt chaos cheats lint format bench docs release clean

help:                       ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## */\1|/p' Makefile | while IFS='|' read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "handoff needs Python 3.11 or newer, and $(PYTHON) is: $$($(PYTHON) -V 2>&1)" >&2; \
	  echo "Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make a virtual environment with pip in it." >&2; \
	  echo "On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.app: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -c constraints.txt -e .
	@touch $@

# Dependency groups need pip 25.1; a fresh venv has the one its Python came with (23.0 on Debian 12).
$(VENV)/.dev: $(VENV)/.app
	$(PIP) install 'pip>=25.1'
	$(PIP) install -c constraints.txt -e . --group dev
	@touch $@

demo: $(VENV)/.app          ## a feature carried over three sessions, no API key
	@$(BIN)/python -m handoff.surfaces.cli.main demo

test: $(VENV)/.dev          ## the suite, without what takes long
	$(PYTEST) -m "not slow and not clients"

test-slow: $(VENV)/.dev     ## what takes long: kills at every step, hunts, languages, pictures
	$(PYTEST) -m "slow and not clients"

# For a machine whose PATH has no bubblewrap: what starts sessions and checks, and says what it does without.
test-unsandboxed: $(VENV)/.dev
	$(PYTEST) -m "not slow and not clients" tests/agents tests/engine/place/proof tests/engine/session \
	  tests/engine/work/flows/test_flows.py tests/surfaces/cli/commands/agents

# Clients trust root with more than anybody else: root installs them where everybody can read, and an ordinary user runs the tests.
test-clients: $(VENV)/.dev  ## real agent clients against a scripted model; CLIENTS="claude codex" for some of them
	$(BIN)/python tests/support/real_clients.py install $(CLIENTS)
ifeq ($(shell id -u),0)
	HANDOFF_TEST_CLIENTS_DIR=$$($(BIN)/python tests/support/real_clients.py folder) MOST_SECONDS=7200 \
	  KEEP="$(if $(CLIENTS),,docs/clients.md)" .ci/as-user make test-clients CLIENTS="$(CLIENTS)"
else
	@rm -f $(VENV)/clients.tsv
	HANDOFF_TEST_CLIENTS="$(or $(CLIENTS),all)" HANDOFF_TEST_CLIENTS_TABLE=$(abspath $(VENV))/clients.tsv \
	  $(PYTEST) -n 2 -m "clients$(if $(CLIENTS), and not front_door and not endings)" tests/clients; verdict=$$?; \
	  $(if $(CLIENTS),,$(BIN)/python tests/support/real_clients.py table $(VENV)/clients.tsv docs/clients.md;) exit $$verdict
endif

script-packages: $(VENV)/.dev ## vitest, jest, mocha, c8 and nyc for the tests that drive them, in a cache of their own
	$(BIN)/python tests/support/script_packages.py

hunt: $(VENV)/.dev          ## random journeys against the promises; STEPS=30000 SEED=1 DATABASE=sqlite
	$(BIN)/python tests/support/hunt/run.py --steps $(or $(STEPS),30000) --seed $(or $(SEED),1) --database $(or $(DATABASE),sqlite)

chaos: $(VENV)/.dev         ## random batches against a model of their own; BATCHES=100 SEED=1 SKIP=0
	$(BIN)/python tests/support/chaos/run.py --batches $(or $(BATCHES),100) --seed $(or $(SEED),1) --skip $(or $(SKIP),0)

cheats: $(VENV)/.dev        ## every cheat and every honest control against the judge; writes the table of docs/trust.md
	$(BIN)/python tests/support/cheats/run.py $(NAMES)

lint: $(VENV)/.dev          ## style, types, floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.dev        ## mend what can be mended by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev         ## speed, as ratios within one run
	$(BIN)/python -m bench

docs: $(VENV)/.dev          ## regenerate the reference and the pictures
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/generate.py stories
	command -v chromium >/dev/null && $(BIN)/python docs/generate.py page || true

# Nothing is uploaded: .github/workflows/release.yml does that for a tag.
release: $(VENV)/.dev       ## wheel, source archive and handoff.pyz in dist/, each installed and tried
	$(PIP) install -c constraints.txt --group release
	$(BIN)/python release/build.py

clean:                      ## remove what make made
	rm -rf $(VENV) build dist
