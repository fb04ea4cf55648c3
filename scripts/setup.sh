#!/usr/bin/env bash
# Make the virtual environment. Called by make only when pyproject.toml or constraints.txt changed.
set -euo pipefail
python=$1 venv=$2
say() { printf 'setup: %s\n' "$*"; }

command -v "$python" >/dev/null || python=python3
"$python" - <<'P' || { say "Python 3.11 or newer is needed: apt-get install python3 python3-venv"; exit 2; }
import sys
sys.exit(sys.version_info < (3, 11))
P
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing Debian's python3-venv"
    apt-get update -q >/dev/null && apt-get install -y -q python3-venv >/dev/null </dev/null
  else
    say "the venv module is missing: sudo apt-get install python3-venv"; exit 2
  fi
fi
[ -x "$venv/bin/python" ] || { say "creating $venv with $("$python" --version)"; "$python" -m venv "$venv"; }
say "installing the packages of constraints.txt into $venv (TensorFlow among them: about 1.7 GB on disk, a minute or two)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,images,dev]' </dev/null
say "ready"
