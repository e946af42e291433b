# Two commands on a fresh machine: `make demo` and `make test`.  Each does all its own set-up.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Most tests wait for shells and hosts more than they compute; files stay together, for what their tests share.
JOBS ?= 3
PYTEST := $(BIN)/python -m pytest
BESIDE := -n $(JOBS) --dist loadfile --no-loadscope-reorder

.PHONY: help demo test test-unit test-full lint format requirements tools lab lab-clean wheel clean

help:                ## Say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# pip is told to install exactly what is pinned by hash; the machine's own mirrors serve it.
$(VENV)/.made: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "gpuprov needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)" >&2; exit 1; }
	@echo "making $(VENV), with what requirements/dev.txt pins"
	@$(PYTHON) -m venv $(VENV) || { echo "make a venv possible first: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

tools:               ## Install the Debian packages that the tests use (as root; nothing where they are there)
	@tests/ensure_tools.sh

lab: $(VENV)/.made tools ## Build the host images of the test lab (Docker engine included)
	@tests/lab/ensure_engine.sh
	@tests/lab/build_images.sh

demo: lab            ## Run the main job on two disposable hosts, and show what came of it
	@$(BIN)/python -m tests.demo

lint: $(VENV)/.made tools ## ruff, mypy --strict, shellcheck
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@git ls-files -co --exclude-standard '*.sh' .ci/run | xargs shellcheck

test: lint lab       ## Every test but the slow variants
	$(PYTEST) $(BESIDE) -m "not slow and not alone"
	$(PYTEST) -m "alone and not slow"

test-unit: $(VENV)/.made ## The tests that need no container hosts
	$(PYTEST) $(BESIDE) -m "not slow and not lab"

test-full: lint lab  ## Every test, the slow variants included
	$(PYTEST) $(BESIDE) -m "not alone"
	$(PYTEST) -m alone

format: $(VENV)/.made ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

requirements: $(VENV)/.made ## Pin the development requirements again, by hash
	$(PYTHON) -m venv build/pin && build/pin/bin/pip install --quiet pip-tools
	build/pin/bin/pip-compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-emit-trusted-host --no-emit-options --no-header --strip-extras --allow-unsafe \
	  -o requirements/dev.txt requirements/dev.in pyproject.toml

wheel: $(VENV)/.made ## Build the wheel, roles and playbooks inside
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation -w dist .

lab-clean:           ## Remove the lab's containers and images
	@tests/lab/clean.sh

clean:               ## Remove what was made here
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
