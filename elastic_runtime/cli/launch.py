"""`elasticdl train`, `evaluate` and `predict`: from the command line to a running job.

The options are those of `JobSpec`; click only carries them.
"""

from __future__ import annotations

import contextlib
from typing import Any, cast

import click

from elastic_runtime.spec.entry import command_line
from elastic_runtime.spec.flags import Command
from elastic_runtime.spec.model_path import resolve


class JobCommand(click.Command):
    """A command whose arguments are read by `elastic_runtime.spec`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave all of them as they are."""
        ctx.args = list(args)
        return ctx.args

    def invoke(self, ctx: click.Context) -> Any:
        """Run the job; its exit code is the command's."""
        spec = command_line(cast("Command", self.name), ctx.args)
        if spec.platform == "kubernetes":
            from elastic_runtime.cli.submit import submit

            return submit(spec)
        resolve(spec.model_zoo, spec.model_def)
        from elastic_runtime.cli.live import live_view
        from elastic_runtime.master.app import run

        view = live_view()
        with view or contextlib.nullcontext():
            return run(spec, view.show if view else None)


train, evaluate, predict = JobCommand("train"), JobCommand("evaluate"), JobCommand("predict")
