"""What `python pipelines/<name>.py` does: it compiles the pipeline, runs it, and says what came of it.

A pipeline file gives two things: `pipeline`, the KFP function under `@dsl.pipeline`, and `argo`, a function
without arguments that returns a Hera `Workflow`. What can be set when the pipeline is started are the
arguments of the one and the workflow's `arguments` of the other; alike names mean the same.

- `--param NAME=VALUE` sets it in whichever has it.
- `--set STEP.INPUT=VALUE` gives a step's input another value: it is written into what was compiled, the task
  of that name in KFP's IR and in Argo's manifest, and goes before whatever the pipeline has there.
- `--image=NAME` has the steps run in this image, in place of the components' own (`components/image.py`).
- What would change nothing where the pipeline runs is refused, and so is a pipeline that runs without a
  parameter that has no default. Compiled it can be: engines ask for it.

What is compiled, and changed so, is in `build/<name>.kfp.yaml`, for `kfp run create` or KFP's own page, and
in `build/<name>.argo.yaml`, for `argo submit`. The course of things goes to standard error, results go to
standard output.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hera.workflows import Workflow
from kfp.dsl.base_component import BaseComponent

from elastic_runtime.errors import InputError
from elastic_runtime.spec.entry import outcome, say
from elasticdl_components.image import IMAGE
from pipelines.engines.choice import ENGINES, choose
from pipelines.engines.local import Local
from pipelines.packages import Package, changes
from pipelines.packages.argo import ArgoPackage
from pipelines.packages.kfp import KfpPackage

BUILD = Path("build")


def main(
    pipeline: BaseComponent,
    *,
    argo: Callable[[], Workflow] | None = None,
    here: Mapping[str, Any] | None = None,
    argv: Sequence[str] | None = None,
) -> int:
    """Compile and run; `here` is what differs where steps run on this machine.

    These are parameters, and inputs of steps, `"train.model_zoo": "{model_zoo}"`, in whose texts parameters
    can be named. What was typed goes before both.
    """
    return outcome(lambda: _main(pipeline, argo, here or {}, argv))


def _main(
    pipeline: BaseComponent,
    argo: Callable[[], Workflow] | None,
    here: Mapping[str, Any],
    argv: Sequence[str] | None,
) -> int:
    for_kfp = KfpPackage(pipeline)
    for_argo = None if argo is None else ArgoPackage(argo(), for_kfp.name)
    packages: list[Package] = [for_kfp] if for_argo is None else [for_kfp, for_argo]
    asked = _parser(pipeline, packages).parse_args(argv)
    wanted = changes.read(asked.param, asked.set)
    done = changes.apply(wanted, packages)
    for package in packages:
        package.check()
    if asked.image is not None:
        done |= changes.run_in(asked.image, packages)
    if asked.engine == "none" and asked.namespace:
        raise InputError("is for a cluster, and the pipeline would run nowhere", where="--namespace")
    if not asked.dry_run:
        _write(packages)
    if asked.engine == "none":
        for option, package in changes.told_of_one(done, packages):
            say(f"{option}: only in {_file(package)}")
        if asked.dry_run:
            say("this would run nowhere, and be written to " + " and ".join(map(str, map(_file, packages))))
            sys.stdout.write("---\n".join(package.text() for package in packages))
        return 0
    parameters = {name: value for name, value in here.items() if "." not in name}
    engine = choose(
        asked.engine, for_kfp, for_argo, namespace=asked.namespace, here=parameters, folder=BUILD.absolute()
    )
    is_here = isinstance(engine, Local)
    if is_here and asked.image is not None:
        raise InputError("is for a cluster, and the pipeline would run here", where=changes.IMAGE_OPTION)
    changes.refuse_others(done, engine.package)
    changes.refuse_gaps(engine.package, known=parameters if is_here else ())
    if is_here:
        changes.apply(changes.of_this_machine(here, {**parameters, **for_kfp.parameters}, wanted), [for_kfp])
    if asked.dry_run:
        say(f"this would run on {engine.why}")
        sys.stdout.write(engine.package.text())
        return 0
    say(f"runs on {engine.why}")
    return engine.run()


def _write(packages: Sequence[Package]) -> None:
    BUILD.mkdir(exist_ok=True)
    for package in packages:
        file = _file(package)
        file.write_text(package.text(), encoding="utf-8")
        say(f"compiled for {package.engine}: {file}")


def _file(package: Package) -> Path:
    return BUILD / f"{package.name}.{package.kind}.yaml"


def _parser(pipeline: BaseComponent, packages: Sequence[Package]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=pipeline.description,
        epilog=_known(packages),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="where to run: Kubeflow Pipelines, Argo, this machine, nowhere; auto: the first that is there",
    )
    add("--namespace", default="", help="the namespace of the cluster; default: as the engine's own tools")
    add(changes.IMAGE_OPTION, metavar="NAME", help=f"what steps run in on a cluster, in place of {IMAGE}")
    add("--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the pipeline")
    add("--set", action="append", default=[], metavar="STEP.INPUT=VALUE", help="an input of a step")
    add("--dry_run", action="store_true", help="show what would be submitted, and where; nothing is done")
    return parser


def _known(packages: Sequence[Package]) -> str:
    """What `--param` and `--set` can name."""
    needed = dict.fromkeys(name for package in packages for name in package.missing())
    lines = [f"to be given: {', '.join(needed)}"] if needed else []
    for package in packages:
        parameters, steps = sorted(package.names()), dict.fromkeys(package.steps())
        lines += [
            f"parameters of {package.form}: {', '.join(parameters) or 'none'}",
            f"steps of {package.form}: {', '.join(steps)}",
        ]
    return "\n".join([*lines, "inputs of the steps: docs/components.md"])
