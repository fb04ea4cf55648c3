"""What has to be in order before a job begins: its run folder, its token, its data."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from elastic_runtime.data import readers as data
from elastic_runtime.data import storage
from elastic_runtime.errors import ElasticError, InputError, Unavailable, installing
from elastic_runtime.master import journal
from elastic_runtime.master.job import (
    EVALUATION,
    EXPORT,
    LISTING,
    MODEL_FOLDER,
    PREDICTION,
    TRAINING,
    Sources,
    model_folder,
)
from elastic_runtime.master.ledger import Source
from elastic_runtime.observe.files import write_atomically
from elastic_runtime.platform.allreduce import REMEDY, why_no_allreduce
from elastic_runtime.rpc.token import make_token, token_from_environment
from elastic_runtime.spec.job import JobSpec, Kind
from elastic_runtime.spec.model_text import check_symbols, has_own_reader, is_elsewhere

SPEC_FILE, TOKEN_FILE, ADDRESS_FILE, JOURNAL_FILE = "job.json", "token", "master.addr", "journal.sqlite"
WISH_FILE = "begun-anew"
_OF_ONE_RUN = (
    TOKEN_FILE,
    "pods",
    "logs",
    "checkpoints",
    MODEL_FOLDER,
    SPEC_FILE,
    "events.jsonl",
    "summary.json",
    "status.json",
    "report.html",
)


def begin_anew(run_dir: Path) -> None:
    """Forget what an earlier run of this job left; files that are not the job's own stay."""
    journal.discard(run_dir / JOURNAL_FILE)
    for name in _OF_ONE_RUN:
        path = run_dir / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def begin_anew_once(run_dir: Path, wish: str) -> None:
    """The same, if there is a wish for it that was not granted here yet: all masters of a job bear it."""
    granted = run_dir / WISH_FILE
    if wish and not (granted.exists() and granted.read_text() == wish):
        begin_anew(run_dir)
        write_atomically(granted, wish)


def can_run(spec: JobSpec) -> None:
    """Refuse what cannot be done here, before anything is written."""
    if not is_elsewhere(spec):  # workers say of a name that is wrong when they load the module
        check_symbols(spec)
    if spec.platform == "kubernetes":  # the workers' image is not this one
        return
    if spec.kind is Kind.TRAINING and spec.distribution_strategy == "AllreduceStrategy" and spec.num_workers:
        reason = why_no_allreduce()
        if reason:
            raise InputError(reason, where="--distribution_strategy", remedy=REMEDY)
    if spec.num_workers and importlib.util.find_spec("tensorflow") is None:
        raise InputError(
            "TensorFlow is not installed here, and workers on this machine need it",
            remedy=installing("train"),
        )
    if spec.training_data and spec.num_ps_pods and importlib.util.find_spec("numba") is None:
        raise InputError(
            "numba is not installed here, and parameter servers on this machine need it",
            remedy=installing("ps"),
        )


def folders_of_its_own(spec: JobSpec) -> list[Path]:
    """Where two masters at a time would spoil each other's files."""
    run_dir, checkpoints = Path(spec.run_dir), Path(spec.checkpoint_dir)
    writes = spec.kind is Kind.TRAINING and spec.checkpoint_steps > 0
    inside = checkpoints.absolute().is_relative_to(run_dir.absolute())
    return [run_dir, checkpoints] if writes and not inside else [run_dir]


def same_work(run_dir: Path, spec: JobSpec) -> None:
    """Refuse to go on with a job that was given other work."""
    path = run_dir / SPEC_FILE
    if not path.exists():
        return
    changes = spec_of(run_dir).differences(spec)
    if changes:
        raise InputError(
            f"job {spec.job_name!r} was begun with other options: {', '.join(changes)}",
            where=str(run_dir),
            remedy="give the same ones, or another --job_name, or begin anew: by --restart, in a pipeline by "
            "the step clean_up with remove_files before it",
        )


def spec_of(run_dir: Path) -> JobSpec:
    """The specification that a run folder was begun with."""
    return JobSpec.from_json((run_dir / SPEC_FILE).read_text())


def keep_spec(run_dir: Path, spec: JobSpec) -> None:
    """Remember what the job was told to do."""
    write_atomically(run_dir / SPEC_FILE, spec.to_json())


def token(run_dir: Path, *, by_hand: bool) -> str:
    """The job's token: given by the environment, kept from an earlier master, or made now.

    Workers started by hand could not know one that was made now: they are let in without, on loopback only.
    """
    given = token_from_environment()
    if not given and by_hand:
        return ""
    path = run_dir / TOKEN_FILE
    if not given and path.exists():
        return path.read_text().strip()
    made = given or make_token()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(made)
    return made


def find_sources(spec: JobSpec) -> Sources:
    """What there is to read, by the kind of work it is for.

    A reader of the model's own is asked later, by a worker, and so are data for which this image, unlike that
    of workers, may lack a package, or the module that may have a reader.
    """
    small_image = spec.platform == "kubernetes" and any(map(storage.needs_package, origins(spec).values()))
    if small_image or is_elsewhere(spec) or has_own_reader(spec):
        return with_export(spec, {LISTING: [Source(name, 1) for name in origins(spec)]})
    sources = {}
    for name, origin in origins(spec).items():
        found = _look(origin, {k: str(v) for k, v in spec.reader_arguments.items()})
        sources[name] = [Source(s.name, s.records, s.start) for s in found]
        if not any(s.records for s in found):
            raise InputError("there are no records", where=origin, remedy="name a folder with data")
    return with_export(spec, sources)


def _look(origin: str, params: dict[str, str]) -> list[data.Source]:
    """What is wrong with the data is bad input as long as nothing has been started."""
    try:
        return data.open_reader(origin, params).sources()
    except (InputError, Unavailable):
        raise
    except ElasticError as problem:
        raise InputError(problem.what, where=problem.where, remedy=problem.remedy) from problem


def origins(spec: JobSpec) -> dict[str, str]:
    """Where the data of each kind of work is."""
    named = {TRAINING: spec.training_data, EVALUATION: spec.validation_data, PREDICTION: spec.prediction_data}
    return {name: origin for name, origin in named.items() if origin}


def with_export(spec: JobSpec, sources: Sources) -> Sources:
    """Add the one piece of work that writes the finished model, if one is wanted."""
    wanted = spec.kind is Kind.TRAINING and model_folder(spec)
    return {**sources, EXPORT: [Source("model", 1)]} if wanted else sources
