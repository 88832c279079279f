# `make` alone lists what there is. Needs Python 3.11 or newer, make and a package registry; nothing else.
PYTHON ?= python3
BIN := .venv/bin
STACK := $(BIN)/python -m local_stack
AUDIT := $(BIN)/pip-audit --disable-pip --progress-spinner off --timeout 15

.DEFAULT_GOAL := help
.PHONY: help install demo up down status dev api costs test contract chaos bench eval lint types check audit lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: .venv/.installed ## everything the project needs, into .venv

demo: .venv/.installed ## run every pipeline once on demo data and judge the result
	@$(STACK) demo

up: .venv/.installed ## start the local services in the background; `. .local/env` names them
	@$(STACK) up

down: .venv/.installed ## stop them; their data stays
	@$(STACK) down

status: .venv/.installed ## which of them run
	@$(STACK) status

dev: .venv/.installed ## services, daemon and UI with schedules and sensors on, until Ctrl-C
	@$(STACK) dev

api: .venv/.installed ## the HTTP door on http://127.0.0.1:8787, with the addresses of `make up`
	@if [ -f .local/env ]; then . .local/env; fi; exec $(BIN)/python -m api

costs: .venv/.installed ## what the last days cost, by pipeline and model
	@if [ -f .local/env ]; then . .local/env; fi; exec $(BIN)/granary costs

# On every core, but those that start whole stacks: these would wait for one another.
test: .venv/.installed ## all tests; they start what they need
	@$(BIN)/python -m pytest -q tests/end_to_end
	@$(BIN)/python -m pytest -q -n auto --dist loadfile tests/unit tests/integration tests/contract tests/chaos

# With what is named, as in `make contract MONGODB_URI=…`, or exported; the rest runs on stand-ins. Short tracebacks:
# long ones show arguments, of which some hold a password.
contract: .venv/.installed ## what we rely on in Postgres, Mongo, bucket and OpenAI, asked of the real ones named
	@CONTRACT_REAL=true $(BIN)/python -m pytest --tb=short tests/contract

chaos: .venv/.installed ## 100 kills in each pipeline, with faults and restarts of Postgres; says what became of every item
	@$(BIN)/python -m tests.chaos

bench: .venv/.installed ## measure what the README claims, as ratios; writes .local/bench.json
	@$(BIN)/python -m benchmarks

eval: .venv/.installed ## how good recommendations are on data that nobody here made
	@$(BIN)/python -m benchmarks.recommendation_eval

lint: .venv/.installed ## style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: .venv/.installed ## types
	@$(BIN)/mypy

check: .venv/.installed ## the definitions load, without any service
	@home=$$(mktemp -d); trap 'rm -rf "$$home"' EXIT; \
		printf 'telemetry: {enabled: false}\nnux: {enabled: false}\n' > "$$home/dagster.yaml"; \
		DAGSTER_HOME="$$home" DAGSTER_DISABLE_TELEMETRY=1 $(BIN)/dg check defs

# A release with a known hole goes first: who does not know of it (a mirror, or nobody) knows of none of ours either,
# and pip-audit would call that clean.
audit: .venv/.installed ## known holes in what we depend on, where the registry tells of them
	@if printf 'urllib3==1.24.1\n' | $(AUDIT) --no-deps -r /dev/stdin 2>&1 | grep -q '^Found '; then \
		$(AUDIT) --require-hashes -r requirements.lock -r deploy/requirements.lock; \
	else echo "the registry tells of no known holes here: nothing was audited"; fi

lock: .venv/.installed ## bring both requirements.lock up to date with pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --all-extras --no-header \
		--python-version 3.11 --upgrade pyproject.toml --output-file requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --extra celery --group kubernetes \
		--no-header --python-version 3.11 --upgrade --constraint requirements.lock pyproject.toml \
		--output-file deploy/requirements.lock
	@! grep -nE 'https?://' requirements.lock deploy/requirements.lock

clean: ## stop the services and remove everything that make made
	@if [ -x $(BIN)/python ] && [ -e .venv/.installed ]; then $(STACK) clean; fi
	@rm -rf .local .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so that an install that was broken off starts anew.
# uv takes seconds where pip takes two minutes; pip is used where uv finds no registry (it does not
# read pip's configuration). Both check every hash and compile: in a shell with PYTHONDONTWRITEBYTECODE each
# process would do it again, which makes a run twice as slow.
.venv/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Granary needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "installing into .venv ..."
	@$(PYTHON) -m venv .venv
	@awk '/^uv==/ {on = 1} on {print} on && !/\\$$/ {exit}' requirements.lock > .venv/uv.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r .venv/uv.lock
	@$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock || \
		{ echo "uv could not install; pip does, in about two minutes ..."; \
		  $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock; }
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --offline --no-deps --no-build-isolation -e .
	@touch $@
