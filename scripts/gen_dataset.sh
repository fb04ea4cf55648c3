#!/usr/bin/env bash
# Writes MNIST as RecordIO files to FOLDER/mnist/train and FOLDER/mnist/test: `gen_dataset.sh FOLDER`.
# The download is kept where Keras keeps its own. Where it cannot be had, the sample that comes with elasticdl is taken;
# `gen_dataset.sh FOLDER sample` takes it without trying.
set -euo pipefail
folder=${1:?usage: gen_dataset.sh FOLDER [sample]}
[ "${2:-}" != sample ] || exec elasticdl data mnist "$folder/mnist" --sample
cache=${KERAS_HOME:-$HOME/.keras}/datasets
mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ] || [ -r "$cache/mnist.npz" ] || cache=$(mktemp -d)

if python - "$cache/mnist.npz" <<'PYTHON'
import hashlib, pathlib, sys, urllib.request

URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"
kept = pathlib.Path(sys.argv[1])
if kept.exists():
    sys.exit()
try:
    content = urllib.request.urlopen(URL, timeout=20).read()
except OSError as error:
    sys.exit(f"gen_dataset: cannot get {URL}: {error}")
if hashlib.sha256(content).hexdigest() != SHA256:
    sys.exit(f"gen_dataset: {URL} is not what it was")
kept.with_suffix(".part").write_bytes(content)
kept.with_suffix(".part").rename(kept)
PYTHON
then
  elasticdl data mnist "$folder/mnist" --source "$cache/mnist.npz"
else
  echo "gen_dataset: taking the 6 000 + 1 000 images that come with elasticdl instead" >&2
  elasticdl data mnist "$folder/mnist" --sample
fi
