# Everything a person runs. Each target makes the environment it needs: .venv, from the hash-locked requirements.

BIN := .venv/bin
STAMP := .venv/.installed
JOBS ?= 2
SEEDS ?= 300
BENCHES = $(basename $(notdir $(shell grep -l '^if __name__ ==' bench/*.py)))

# The first Python of 3.11 or later on PATH; the rule below says what to do when there is none.
PYTHON ?= $(shell for candidate in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$candidate >/dev/null && $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' && { echo $$candidate; break; }; done)

.PHONY: help demo test lint unit scenarios e2e chaos soak browser pictures prometheus oracle sim mutants ray bench docs lock format clean
.DEFAULT_GOAL := help

help:  ## this list
	@sed -n 's/^\([a-z0-9]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo: $(STAMP)  ## growth at work in the embedded cluster, on a page; ends by itself where nobody watches
	$(BIN)/growth demo

test: lint unit  ## lint and unit tests

lint: $(STAMP)  ## style, types, layers, dependencies
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry src

unit: $(STAMP)  ## unit tests only
	$(BIN)/pytest -n $(JOBS)

scenarios: $(STAMP)  ## every world of tests/scenarios, also those that take long
	$(BIN)/pytest -n $(JOBS) tests/scenarios/test_scenarios.py tests/scenarios/long/long_scenarios.py

# what a child process left open when it was killed is told when the collector finds it, in whichever test that is: told, but no failure
E2E_FLAGS := -W default::pytest.PytestUnraisableExceptionWarning
# what API servers of several versions may differ in; KUBERNETES=1.33 builds that one
OLDER := buffers client crds election health lifecycle provisioning scheduler shipped warm_pools warm_pools_admission watch
E2E := $(if $(KUBERNETES),$(OLDER:%=tests/e2e/test_%.py),tests/e2e)
e2e: export KUBERNETES_MINOR = $(KUBERNETES)
e2e: $(STAMP)  ## against the real control plane, built from source once (KUBERNETES=1.33: an older one)
	@$(BIN)/python -m tests.e2e.controlplane.build || test -z "$$CI"  # without it the tests say how to get it, and skip; not under CI
	$(BIN)/pytest $(E2E_FLAGS) $(E2E) || { echo "== once more, those that failed: a busy machine may have been too slow for a real control plane"; $(BIN)/pytest $(E2E_FLAGS) $(E2E) --last-failed --last-failed-no-failures=none; }

# 64 rounds take less than half an hour, 10 less than five minutes; SEED repeats what was drawn
chaos: $(STAMP)  ## kills and faults on the real control plane (SHORT=1, SEED=7)
	$(BIN)/python -m tests.chaos --rounds $(if $(SHORT),10,64) --minutes $(if $(SHORT),4,28) $(if $(SEED),--seed $(SEED))

soak: $(STAMP)  ## ninety virtual days: does memory follow the cluster, or the time? (DAYS=90)
	$(BIN)/python -m tests.chaos.soak --days $(or $(DAYS),90)

browser: $(STAMP)  ## the page in a real Chromium, which is installed where it may be; pictures in .build/browser
	@$(BIN)/python -m tests.browser
	$(BIN)/pytest tests/browser

pictures: browser  ## those pictures, into the docs
	mkdir -p docs/pictures && cp .build/browser/*.png docs/pictures/

prometheus: $(STAMP)  ## alerts and dashboard in a real Prometheus, which is installed where it may be
	@$(BIN)/python -m tests.prometheus
	$(BIN)/pytest tests/prometheus

oracle: $(STAMP)  ## feasibility against the real scheduler's plugins (CASES=20000)
	$(BIN)/python -m tests.oracle
	$(BIN)/pytest tests/oracle

sim: $(STAMP)  ## seeds of trouble in the embedded cluster (SEEDS=300)
	$(BIN)/growth sim --seeds $(SEEDS)

# In an environment of its own: Ray is large, and nothing else needs it.
GRID := burst --grid settings.scaleDownDelaySeconds=30,300 --seeds 2 --output json
ray:  ## a small grid by processes and by Ray, which must give the same
	@test -n "$(PYTHON)" || { echo "growth needs Python 3.11 or later on PATH (python3, python3.11 ... python3.14)." >&2; exit 1; }
	$(PYTHON) -m venv .build/ray
	.build/ray/bin/pip install --quiet --disable-pip-version-check -e '.[ray]'
	.build/ray/bin/growth simulate $(GRID) --engine processes > .build/ray/processes.json
	.build/ray/bin/growth simulate $(GRID) --engine ray > .build/ray/ray.json
	cmp .build/ray/processes.json .build/ray/ray.json && echo "the same results: $$(wc -l < .build/ray/ray.json) runs"

mutants: $(STAMP)  ## plant every bug of tests/sim/mutants.py: does a law notice?
	$(BIN)/python -m tests.sim.mutants

bench: $(STAMP)  ## every benchmark, one after the other
	@set -e; for name in $(BENCHES); do echo "== bench.$$name"; $(BIN)/python -m bench.$$name; done

docs: $(STAMP)  ## the site, into site/
	$(BIN)/zensical build --clean --strict

format: $(STAMP)  ## let ruff put the code in order
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock:  ## choose versions anew and write both lock files
	@test -n "$(PYTHON)" || { echo "growth needs Python 3.11 or later on PATH (python3, python3.11 ... python3.14)." >&2; exit 1; }
	$(PYTHON) -m venv .build/lock
	.build/lock/bin/pip install --quiet --upgrade uv
	.build/lock/bin/uv lock --quiet --upgrade
	.build/lock/bin/uv export --quiet --format requirements-txt --no-emit-project --no-default-groups -o requirements.lock
	.build/lock/bin/uv export --quiet --format requirements-txt --no-emit-project --all-groups -o requirements-dev.lock

clean:  ## remove all that the other targets made
	rm -rf .venv .build site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): requirements-dev.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "growth needs Python 3.11 or later on PATH (python3, python3.11 ... python3.14)." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { echo "$(PYTHON) cannot make environments: install its venv module (python3-venv on Debian and Ubuntu)." >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
