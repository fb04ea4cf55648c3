"""`python -m elastic_runtime.master`: one master; unless told to start workers it waits for those by hand."""

from __future__ import annotations

from elastic_runtime.master.app import run
from elastic_runtime.spec.entry import command_line, outcome


def main() -> int:
    """See the job of this command line through."""
    return run(command_line("master"))


if __name__ == "__main__":
    raise SystemExit(outcome(main))
