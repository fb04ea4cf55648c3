"""`elasticdl data`: convert datasets to RecordIO, look into files, check them, get MNIST.

What is heavy is imported inside the commands. Also runs as `python -m elastic_runtime.cli.data`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from elastic_runtime.errors import ElasticError, InputError

if TYPE_CHECKING:
    from elastic_runtime.data.convert import ConvertResult

Progress = Callable[[int, int | None], None]
_SECONDS_BETWEEN_LINES = 2.0

_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(invoke_without_command=True)
@click.pass_context
def data(ctx: click.Context) -> None:
    """Convert, inspect and verify RecordIO data."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@data.command()
@click.argument("source")
@click.argument("output")
@click.option(
    "--kind", default="", help="arrays, csv, images, jsonl or tfrecord; told by the name if left out."
)
@click.option(
    "--schema",
    default="",
    help="Features to write: name:type,... or name=column:type,... (int, float, bytes).",
)
@click.option("--records_per_file", default=4096, show_default=True, help="Most records in one file.")
@click.option(
    "--on_error", default="fail", show_default=True, help="fail at the first bad row, or skip bad rows."
)
@click.option("--split", default="", help="Sub-folders and their shares of the rows: train=0.9,test=0.1.")
@click.option("--seed", default=0, show_default=True, help="Of the split.")
@click.option("--compressor", default="snappy", show_default=True, help="snappy, gzip or none.")
@click.option(
    "--delimiter", default="", help="Of CSV: a comma, or a tab in .tsv and .tab files, if left out."
)
@click.option("--image_size", default="", help="HEIGHTxWIDTH to scale images to.")
@click.option("--image_mode", default="", help="L (grey) or RGB; as the first image if left out.")
@click.option("--processes", default=0, help="How many work in parallel; one a core if left out.")
@_as_json
def convert(as_json: bool, **options: Any) -> None:
    """Convert SOURCE (file, folder, glob or list with commas; paths or URIs) to RecordIO files in OUTPUT."""
    from elastic_runtime.data.convert import ConvertRequest
    from elastic_runtime.data.convert import convert as run

    request = ConvertRequest(**options)
    with _progress("converting") as progress:
        result = run(request, progress)
    _show(request.output, result, as_json)


@data.command()
@click.argument("output")
@click.option("--sample", is_flag=True, help="Take the 6 000 + 1 000 images that come with elasticdl.")
@click.option("--source", default="", help="mnist.npz, or the folder of the original idx files.")
@click.option(
    "--url", envvar="MNIST_URL", show_envvar=True, help="A mirror to download it from, the very same file."
)
@_as_json
def mnist(output: str, sample: bool, source: str, url: str | None, as_json: bool) -> None:
    """Write MNIST to OUTPUT/train and OUTPUT/test: `image` (784 floats 0-255) and `label`.

    Without --sample and --source it is downloaded, and kept where Keras keeps it.
    """
    from elastic_runtime.data import mnist as digits

    if sample and source:
        raise InputError("--sample and --source exclude each other")
    with contextlib.ExitStack() as for_now:
        if sample:
            source = digits.sample()
        elif not source:
            source = for_now.enter_context(digits.published(url or digits.URL, _say))
        progress = for_now.enter_context(_progress("converting"))
        results = digits.convert_mnist(output, source, progress)
    for part, result in results.items():
        _show(f"{output}/{part}", result, as_json)


@data.command()
@click.argument("location")
@_as_json
def inspect(location: str, as_json: bool) -> None:
    """Show how many records each file at LOCATION holds, and what the first record is."""
    from elastic_runtime.data import inspect as look

    files = look.facts(location)
    first = next(look.head(location, 1), None)
    features = None if first is None else look.kinds(first)
    if as_json:
        listed = [dataclasses.asdict(file) for file in files]
        click.echo(
            json.dumps(
                {"files": listed, "records": sum(f.records for f in files), "features": features}, indent=2
            )
        )
        return
    for file in files:
        how = "+".join(file.compressors) or "empty"
        click.echo(f"{file.file}: {file.records} records in {file.chunks} chunks ({how}), {file.bytes} bytes")
    click.echo(f"{sum(file.records for file in files)} records in {len(files)} files")
    if features is not None:
        click.echo("tf.train.Example: " + ", ".join(f"{name} ({kind})" for name, kind in features.items()))
    elif first is not None:
        click.echo(f"records are no tf.train.Example; the first has {len(first)} bytes")


@data.command()
@click.argument("location")
@click.option("-n", "--records", default=5, show_default=True, type=click.IntRange(min=1), help="How many.")
@_as_json
def head(location: str, records: int, as_json: bool) -> None:
    """Show the first records at LOCATION."""
    from elastic_runtime.data import inspect as look

    shown = [(record, look.readable(record)) for record in look.head(location, records)]
    if as_json:
        click.echo(json.dumps([record.hex() if features is None else features for record, features in shown]))
        return
    for number, (record, features) in enumerate(shown):
        text = (
            repr(record) if features is None else ", ".join(f"{k}={_brief(v)}" for k, v in features.items())
        )
        click.echo(f"{number}: {text}")


@data.command()
@click.argument("location")
@_as_json
def verify(location: str, as_json: bool) -> None:
    """Read every record at LOCATION; exit with 1 if any is damaged."""
    from elastic_runtime.data import inspect as look

    done = 0
    verdicts = []
    with _progress("reading") as progress:

        def count(more: int) -> None:
            nonlocal done
            done += more
            progress(done, None)

        for verdict in look.verify(location, count):
            verdicts.append(verdict)
            if not as_json:
                state = "damaged" if verdict.error else "whole"
                click.echo(f"{verdict.file}: {state}, {verdict.records} records read")
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(verdict) for verdict in verdicts], indent=2))
    damaged = [verdict.error for verdict in verdicts if verdict.error]
    if damaged:
        more = f" (and {len(damaged) - 1} more files)" if len(damaged) > 1 else ""
        raise ElasticError(damaged[0] + more)


def _show(output: str, result: ConvertResult, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"output": output, **dataclasses.asdict(result)}))
        return
    click.echo(f"{output}: {result.records} records in {result.files} files, {result.seconds:.1f} s")
    if result.rejects:
        click.echo(f"{result.rejects} bad rows were skipped, see {result.rejects_file}")


def _say(line: str) -> None:
    click.echo(line, err=True)


@contextlib.contextmanager
def _progress(doing: str) -> Iterator[Progress]:
    """A bar on a terminal; otherwise now and then a line."""
    if not sys.stderr.isatty():
        yield _lines(doing)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(doing, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _lines(doing: str) -> Progress:
    said = time.monotonic()

    def progress(done: int, total: int | None) -> None:
        nonlocal said
        if time.monotonic() - said >= _SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            _say(f"{doing}: {done}{f' of {total}' if total else ''} records")

    return progress


def _brief(values: list[Any]) -> str:
    if len(values) == 1:
        return repr(values[0])
    return f"[{', '.join(map(repr, values[:8]))}{f', ... {len(values)} values' if len(values) > 8 else ''}]"


if __name__ == "__main__":
    from elastic_runtime.cli.main import main

    main(["data", *sys.argv[1:]])
