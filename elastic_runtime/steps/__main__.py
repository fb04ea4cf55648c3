"""`python -m elastic_runtime.steps STEP --name=value ...`: how a container runs a step."""

from __future__ import annotations

import sys

from elastic_runtime.platform.process.child import settle
from elastic_runtime.steps.command import main

if __name__ == "__main__":
    settle(lambda: main(sys.argv[1:]))
