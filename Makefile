# Two commands matter to a newcomer: `make run` and `make test`. Each sets up what it needs and says so.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

.PHONY: help setup run test lint generate format bench clean

help:  ## what can be made
	@awk -F':.*## ' '/^[a-z_-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## create .venv with everything in it (a second time: nothing to do)

$(STAMP): pyproject.toml constraints.txt .ci/setup
	@bash .ci/setup "$(PYTHON)" "$(VENV)" && touch $@

run: $(STAMP)  ## train MNIST here: 1 parameter server and 2 workers as real processes
	@bash .ci/run_mnist "$(BIN)"

test: $(STAMP)  ## every test this machine can run
	@$(BIN)/python -m pytest

lint: $(STAMP)  ## ruff, mypy, import-linter, drift of generated files
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m elastic_runtime.rpc.generate --check

generate: $(STAMP)  ## rebuild the protobuf stubs and the generated docs
	@$(BIN)/python -m elastic_runtime.rpc.generate

format: $(STAMP)  ## let ruff put every file in order
	@$(BIN)/ruff check --fix -q . || true
	@$(BIN)/ruff format -q .

bench: $(STAMP)  ## every figure of docs/benchmarks.md
	@$(BIN)/python -m tests.benchmarks

clean:  ## remove what was made here, the virtual environment too
	rm -rf $(VENV) build dist runs .mypy_cache .ruff_cache .hypothesis
