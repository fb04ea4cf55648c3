# Two commands matter to a newcomer: `make run` and `make test`. Each sets up what it needs and says so.
# In the development image all of it is there already, and in PATH.
.DEFAULT_GOAL := help
BIN := $(if $(ELASTICDL_INSTALLED),,.venv/bin/)

.PHONY: help setup run test lint lint-style lint-types lint-rooms lint-drift generate format bench clean \
  cluster cluster-kfp cluster-images cluster-down cluster-env

help:  ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## make .venv with everything in it (a second time: nothing to do)
	@$(if $(ELASTICDL_INSTALLED),,.ci/setup)

run: setup  ## train MNIST here: 1 parameter server and 2 workers as real processes
	$(BIN)elasticdl data mnist build/mnist --sample
	$(BIN)elasticdl train --job_name=mnist --restart \
	  --model_zoo=model_zoo --model_def=mnist.mnist_functional_api.custom_model \
	  --training_data=build/mnist/train --validation_data=build/mnist/test \
	  --num_epochs=3 --evaluation_steps=50 --num_ps_pods=1 --num_workers=2

test: setup  ## run every test this machine can run
	@.ci/test $(BIN)python

lint: lint-style lint-types lint-rooms lint-drift  ## check style, types, rooms and generated files

lint-style: setup
	$(BIN)ruff check --quiet .
	$(BIN)ruff format --check --quiet .

lint-types: setup
	$(BIN)mypy

lint-rooms: setup
	$(BIN)lint-imports --no-logo

lint-drift: setup
	$(BIN)python -m elastic_runtime.rpc.generate --check
	$(BIN)python -m elastic_runtime.spec.document --check
	$(BIN)python -m components.generate --check
	$(BIN)python -m components.argo --check

generate: setup  ## rebuild the protobuf stubs and the generated docs
	$(BIN)python -m elastic_runtime.rpc.generate
	$(BIN)python -m elastic_runtime.spec.document
	$(BIN)python -m components.generate
	$(BIN)python -m components.argo

format: setup  ## let ruff put every file in order
	$(BIN)ruff check --fix --quiet . || true
	$(BIN)ruff format --quiet .

bench: setup  ## measure every figure of docs/benchmarks.md
	$(BIN)python -m tests.benchmarks --write

NODES ?= 3
cluster: setup  ## bring up a real Kubernetes of NODES nodes (3) on this machine: docs/cluster.md
	@$(BIN)python -m tests.cluster.kit up --nodes=$(NODES)

cluster-kfp: setup  ## the same with Kubeflow Pipelines in it
	@$(BIN)python -m tests.cluster.kit up --nodes=$(NODES) --kfp

cluster-images: setup  ## build what steps of pipelines run in, and push it to that cluster's registry
	@$(BIN)python -m tests.cluster.kit images

cluster-down: setup  ## take it down, and whatever a crash has left of it
	@$(BIN)python -m tests.cluster.kit down

cluster-env:  ## print what gives a shell its kubectl: docs/cluster.md
	@$(BIN)python -m tests.cluster.kit env

clean:  ## remove what was made here, the virtual environment too
	rm -rf .venv build dist runs .mypy_cache .ruff_cache .import_linter_cache .hypothesis
