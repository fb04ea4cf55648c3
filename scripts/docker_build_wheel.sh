#!/usr/bin/env bash
# Packages this project into ./build, for `elasticdl zoo init --local_pkg_dir=./build`.
set -euo pipefail
python3 -m pip wheel --quiet --no-deps --wheel-dir build "$(dirname "$0")/.."
