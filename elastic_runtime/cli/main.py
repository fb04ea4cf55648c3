"""The top of the `elasticdl` command: which commands there are, and where each is loaded from."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from elastic_runtime import __version__
from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.spec.entry import outcome

COMMANDS = {
    "train": (
        "elastic_runtime.cli.launch:train",
        "Train a model; go on where the job of that name was left.",
    ),
    "evaluate": ("elastic_runtime.cli.launch:evaluate", "Evaluate a trained model."),
    "predict": ("elastic_runtime.cli.launch:predict", "Predict with a trained model."),
    "job": ("elastic_runtime.cli.job:job", "Look at jobs, stop them, clean up after them."),
    "data": ("elastic_runtime.cli.data:data", "Convert, inspect and verify RecordIO data."),
    "zoo": ("elastic_runtime.cli.zoo:zoo", "Build and push the image that holds your models."),
}


class LazyGroup(click.Group):
    """A group that imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command itself, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        found = getattr(importlib.import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but an unknown name points to the nearest."""
        if args[0] not in COMMANDS:
            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            remedy = f"did you mean {close[0]!r}?" if close else f"commands: {', '.join(COMMANDS)}"
            raise InputError(f"unknown command {args[0]!r}", remedy=remedy)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The table of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": lambda word: word.replace("-", "_"),  # --keep-files is --keep_files
    },
    epilog="`elasticdl COMMAND --help` shows the options of a command.",
)
@click.version_option(__version__, prog_name="elasticdl", message="%(prog)s %(version)s")
@click.pass_context
def elasticdl(ctx: click.Context) -> None:
    """Train models with workers that may come and go, on this machine or on Kubernetes."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit with its code: 0 done, 1 failed, 2 bad input, 130 interrupted."""
    sys.exit(outcome(lambda: _dispatch(argv)))


def _dispatch(argv: Sequence[str] | None) -> int:
    try:
        code = elasticdl.main(args=argv, prog_name="elasticdl", standalone_mode=False)
    except click.UsageError as error:
        raise InputError(error.format_message()) from None
    except click.ClickException as error:
        raise ElasticError(error.format_message()) from None
    except click.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0
