#!/usr/bin/env bash
# Builds the images that the tutorials name, with docker; BUILDER=podman or BUILDER=buildah for another builder.
# GEN_DATA=sample puts the sample into them instead of the whole of MNIST.
set -euo pipefail
cd "$(dirname "$0")/../.."
build() { "${BUILDER:-docker}" build -f images/Dockerfile "$@" .; }
data="GEN_DATA=${GEN_DATA:-yes}"

build --target tensorflow -t elasticdl:dev_allreduce
build --target tensorflow -t elasticdl:ci --build-arg "$data"
build -t elasticdl:dev -t elasticdl -t elasticdl/elasticdl:dev --build-arg "$data"
