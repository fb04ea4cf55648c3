"""`docs/options.md`, generated from `JobSpec`: `python -m elastic_runtime.spec.document [--check]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from elastic_runtime.errors import ElasticError
from elastic_runtime.spec import aliases
from elastic_runtime.spec.entry import outcome
from elastic_runtime.spec.flags import COMMANDS, Flag, flags
from elastic_runtime.spec.job import JobSpec
from elastic_runtime.spec.usage import default_shown

PAGE = Path(__file__).parents[2] / "docs" / "options.md"

_INTRODUCTION = """\
# Options of a job

Generated from `elastic_runtime/spec` by `make generate`; do not edit.

`elasticdl train`, `evaluate` and `predict` take the same options wherever the job runs, and so do the
processes developers start by hand. `--x=v` and `--x v` mean the same, `-` may stand for `_`, and a switch
may stand bare or take `true`, `yes`, `t`, `y`, `1` or their opposites. An unknown option, a bad value or a
contradiction is told in one line and ends the command with exit code 2 before anything is started.

Defaults in *italics* are worked out from other options; an option is required by the commands in **bold**.
"""

_HEADING = ("| option | default | meaning | taken by | once called |", "|---|---|---|---|---|")
_OLDER = """
## Older names

Each is accepted with one notice, or refused with its replacement.

| older option | what becomes of it |
|---|---|
"""


def page() -> str:
    """The whole page."""
    lines, group = [_INTRODUCTION], ""
    for flag in flags(JobSpec):
        if flag.group != group:
            lines += [""] * bool(group)
            group = flag.group
            lines += [
                f"\n## {group}\n",
                "| option | default | meaning | taken by | once called |",
                "|---|---|---|---|---|",
            ]
        lines.append(_row(flag))
    older = [f"| `--{name}` | `--{now}` |" for name, now in aliases.RENAMED.items()]
    older += [f"| `--{name}` | {becomes} |" for name, (becomes, _) in aliases.TRANSLATED.items()]
    older += [f"| `--{name}` | does nothing: {why} |" for name, why in aliases.GONE.items()]
    older += [f"| `--{name}` | refused: {why}; {cure} |" for name, (why, cure) in aliases.REFUSED.items()]
    return "\n".join(lines) + "\n" + _OLDER + "\n".join(older) + "\n"


def _row(flag: Flag) -> str:
    shown = default_shown(flag)
    default = f"*{shown.replace('<', '&lt;')}*" if flag.extra.shown else f"`{shown}`" if shown else ""
    others = [f"`{flag.default(command)}` for {command}" for command in flag.extra.by_command]
    words = f" (`{'`, `'.join(flag.choices)}`)" if flag.choices else ""
    takers = ", ".join(
        f"**{command}**" if command in flag.extra.required else command
        for command in COMMANDS
        if command in flag.extra.takes
    )
    once = ", ".join(f"`{name}`" for name, now in aliases.RENAMED.items() if now == flag.name)
    text = (flag.text + words).replace("|", "\\|")
    return f"| `{flag.option}` | {'; '.join(filter(None, [default, *others]))} | {text} | {takers} | {once} |"


def main() -> int:
    """Write the page, or with `--check` say whether it is as it should be."""
    parser = argparse.ArgumentParser(prog="python -m elastic_runtime.spec.document", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only tell whether the page is up to date")
    wanted = page()
    if not parser.parse_args().check:
        PAGE.write_text(wanted, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
        raise ElasticError("is not what JobSpec says", where=str(PAGE), remedy="run `make generate`")
    return 0


if __name__ == "__main__":
    sys.exit(outcome(main))
