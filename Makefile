# Two commands matter to a newcomer: `make run` and `make test`. Each sets up what it needs and says so.
.DEFAULT_GOAL := help
BIN := .venv/bin

.PHONY: help setup run test lint lint-style lint-types lint-rooms lint-drift generate format bench clean

help:  ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## make .venv with everything in it (a second time: nothing to do)
	@.ci/setup

run: setup  ## train MNIST here: 1 parameter server and 2 workers as real processes
	$(BIN)/elasticdl data mnist build/mnist --sample
	$(BIN)/elasticdl train --job_name=mnist --restart \
	  --model_zoo=model_zoo --model_def=mnist.mnist_functional_api.custom_model \
	  --training_data=build/mnist/train --validation_data=build/mnist/test \
	  --num_epochs=3 --evaluation_steps=50 --num_ps_pods=1 --num_workers=2

test: setup  ## run every test this machine can run
	$(BIN)/python -m pytest

lint: lint-style lint-types lint-rooms lint-drift  ## check style, types, rooms and generated files

lint-style: setup
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .

lint-types: setup
	$(BIN)/mypy

lint-rooms: setup
	$(BIN)/lint-imports --no-logo

lint-drift: setup
	$(BIN)/python -m elastic_runtime.rpc.generate --check
	$(BIN)/python -m elastic_runtime.spec.document --check

generate: setup  ## rebuild the protobuf stubs and the generated docs
	$(BIN)/python -m elastic_runtime.rpc.generate
	$(BIN)/python -m elastic_runtime.spec.document

format: setup  ## let ruff put every file in order
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format --quiet .

bench: setup  ## measure every figure of docs/benchmarks.md
	$(BIN)/python -m tests.benchmarks

clean:  ## remove what was made here, the virtual environment too
	rm -rf .venv build dist runs .mypy_cache .ruff_cache .import_linter_cache .hypothesis
