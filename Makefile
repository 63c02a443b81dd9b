# Weft. Every target is a thin call; `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

BIN := .venv/bin
AS_ROOT := setup/as_root.sh

# Variables of run-topo:
TOPO ?=
TARGET ?=
P4 ?=
ENTRIES ?=
CLI ?=
# Variables of lab:
LAB ?=
RUNTIME ?=
# More arguments for pytest or a lab, for example: make test ARGS='-k compiler'
ARGS ?=

.PHONY: help setup run-topo lab test test-long bench lint doctor readme uninstall setup-p4rt-shell setup-dask setup-notebook setup-torch stop clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing (Debian packages, .venv, headers, core), `weft` on PATH; instant if done
	@setup/setup.sh $(if $(filter setup,$(MAKECMDGOALS)),--asked)

run-topo: setup ## the default lab; TOPO=file.yaml, P4=prog.p4, ENTRIES=dir, TARGET=softswitch|bmv2, CLI=1 for a prompt
	@$(AS_ROOT) $(BIN)/weft run-topo $(TOPO) $(if $(P4),--p4 $(P4)) $(if $(ENTRIES),--entries $(ENTRIES)) $(if $(TARGET),--target $(TARGET)) $(if $(filter-out 0,$(CLI)),--cli)

lab: setup ## a lab, its checks and its report; LAB=name (without: the list), RUNTIME=simulator|softswitch|bmv2
	@$(if $(filter-out simulator,$(RUNTIME)),$(AS_ROOT)) $(BIN)/weft lab $(if $(LAB),run $(LAB) $(if $(RUNTIME),--runtime $(RUNTIME)) $(ARGS),list)

test: setup lint ## lint, then the tests (those that need root only as root); ARGS='-k name'
	@$(BIN)/weft setup-dask || echo "no Dask: its tests are left out"
	@$(BIN)/python tests/run.py $(ARGS)

test-long: setup ## the long ones: sanitizers, random programs, beside p4c and BMv2; ARGS='-k name'
	@$(BIN)/weft setup-dask || echo "no Dask: its tests are left out"
	@$(BIN)/weft setup-notebook || echo "no Jupyter: its tests are left out"
	@$(BIN)/weft setup-p4rt-shell || echo "no p4runtime-shell: its tests are left out"
	@$(BIN)/python tests/run.py --long $(ARGS)

bench: setup ## what the switch can do: Mpps a core, CPU time a packet
	@$(AS_ROOT) $(BIN)/weft bench $(ARGS)

lint: setup ## ruff, its formatter as a check, mypy, and that imports go one way
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/mypy tests/bench
	@mkdir -p build/logs; $(BIN)/lint-imports >build/logs/lint-imports.log || { cat build/logs/lint-imports.log; exit 1; }

readme: setup ## whether the README's numbers are what its commands print; ARGS='--write', '--full'
	@$(AS_ROOT) $(BIN)/python tests/readme.py $(ARGS)

doctor: ## what this machine has, what each missing thing costs, and what mends it
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m weft.doctor $(ARGS); else python3 -m weft.doctor $(ARGS); fi

uninstall: ## say what Weft has on this machine, and remove it; ARGS='--dry-run' or '--yes'
	@/usr/bin/python3 -B -m weft.uninstall $(ARGS)

setup-p4rt-shell: setup ## install p4runtime-shell, which the prompt's p4rt-shell starts
	@$(BIN)/weft setup-p4rt-shell

setup-dask: setup ## install Dask, which `weft sweep --scheduler` and its workers need
	@$(BIN)/weft setup-dask

setup-notebook: setup ## install Jupyter and pandas, for `weft notebook`
	@$(BIN)/weft setup-notebook

setup-torch: setup ## install PyTorch (its CPU build), which the ranks of `weft train` run
	@$(BIN)/weft setup-torch

stop: ## stop the running topology, and remove exactly what it made
	@$(AS_ROOT) $(BIN)/weft stop

clean: ## stop, remove what crashed runs left, then what was built (not .venv)
	@if [ -x $(BIN)/weft ]; then $(AS_ROOT) $(BIN)/weft stop; fi
	@$(AS_ROOT) rm -rf build {softswitch,simulator}/core/{_build,*.so} hostagent/rnic/{_build,*.so} mechanisms/*/{_build,*.so} .pytest_cache .mypy_cache .import_linter_cache .ruff_cache .hypothesis
