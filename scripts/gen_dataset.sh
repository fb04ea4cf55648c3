#!/usr/bin/env bash
# Writes MNIST as RecordIO files to FOLDER/mnist/train and FOLDER/mnist/test: `gen_dataset.sh FOLDER`. Where it cannot be
# downloaded, the sample that comes with elasticdl is taken; `gen_dataset.sh FOLDER sample` takes it without trying.
set -euo pipefail
mnist=${1:?usage: gen_dataset.sh FOLDER [sample]}/mnist
if [ "${2:-}" != sample ]; then
  elasticdl data mnist "$mnist" && exit
  echo "gen_dataset: taking the 6 000 + 1 000 images that come with elasticdl instead" >&2
fi
exec elasticdl data mnist "$mnist" --sample
