"""Runs Horovod's own tests of TensorFlow 2 against our build: `python -m tests.upstream.horovod CHECKOUT`.

CHECKOUT is Horovod's repository at the release we build; what is released contains no tests. Those of
collectives run in two processes that meet over loopback, and pass if they pass in both. What does not pass is
printed with the reason, if it is a known one (`docs/horovod.md`); if not, the run fails.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

NEEDS = ["mock", "parameterized"]
KERAS_2 = ["--no-deps", "tf-keras==2.21.0"]
HANGS = ["--timeout=240", "-o", "timeout_method=thread", "-p", "no:cacheprovider", "-q", "--no-header"]


@dataclass(frozen=True)
class Suite:
    """One file of upstream's tests."""

    path: str
    processes: int
    select: str = ""
    keras: int = 3


_ON_KERAS_2 = "test_horovod_syncbn_cpu or test_model_parallel_model or test_partial_distributed_gradient_tape"
SUITES = (
    Suite("test/parallel/test_tensorflow.py", 2, "not gpu"),
    Suite("test/parallel/test_tensorflow.py", 2, _ON_KERAS_2, keras=2),
    Suite("test/parallel/test_tensorflow2_keras.py", 2, keras=2),
    Suite("test/integration/test_elastic_tensorflow2.py", 1, keras=2),
)
_GRAPH = "for graphs without eager execution, which is never off here"
_KERAS_2 = "uses Horovod's wrappers of Keras 2; passes with it"
_UPSTREAM = "left out by upstream"
KNOWN = {
    "test_session": "not a test",
    "test_horovod_broadcast_eager_mode_error": _GRAPH,
    "test_horovod_broadcast_graph_mode": _GRAPH,
    "test_local_gradient_aggregation": _GRAPH,
    "test_local_gradient_aggregation_sparse": _GRAPH,
    "test_horovod_join_allreduce": "needs a GPU",
    "test_horovod_syncbn_cpu": _KERAS_2,
    "test_model_parallel_model": _KERAS_2,
    "test_partial_distributed_gradient_tape": _KERAS_2,
    "test_train_model_lr_schedule": "asks the package keras, Keras 3 here, for a function of Keras 2",
    "test_all_hosts_blacklisted": _UPSTREAM,
    "test_min_hosts_timeout": _UPSTREAM,
}


def outcomes(suite: Suite, checkout: Path, folder: Path) -> dict[str, tuple[str, str]]:
    """Each test's outcome, the worst of the processes', and what it said."""
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousServer

    server = RendezvousServer()
    port = server.start()
    hosts = ",".join(f"p{rank}:1" for rank in range(suite.processes))
    server.init(get_host_assignments(parse_hosts(hosts), suite.processes))
    started = [_start(suite, checkout, folder, rank, port) for rank in range(suite.processes)]
    for process in started:
        process.wait()
    server.stop()
    found: dict[str, tuple[str, str]] = {}
    for rank in range(suite.processes):
        for name, outcome in _read(folder / f"{rank}.xml").items():
            found[name] = max(found.get(name, outcome), outcome, key=lambda one: _RANKING.index(one[0]))
    return found


_RANKING = ("passed", "skipped", "failure", "error")


def _start(suite: Suite, checkout: Path, folder: Path, rank: int, port: int) -> subprocess.Popen[bytes]:
    world = {
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(suite.processes),
        "HOROVOD_LOCAL_RANK": str(rank),
        "HOROVOD_LOCAL_SIZE": str(suite.processes),
        "HOROVOD_HOSTNAME": "localhost",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }
    env = {
        **os.environ,
        **(world if suite.processes > 1 else {}),
        "HOROVOD_GLOO_IFACE": "lo",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "10",
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "30",  # one failed, and the other waits for it
        "PYTHONPATH": os.pathsep.join([str(folder / "needs"), str(checkout / "test/utils")]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_USE_LEGACY_KERAS": str(int(suite.keras == 2)),
    }
    select = ["-k", suite.select] if suite.select else []
    command = [sys.executable, "-m", "pytest", str(checkout / suite.path), *HANGS, *select]
    log = (folder / f"{rank}.log").open("wb")
    return subprocess.Popen(
        [*command, "-c", os.devnull, f"--junitxml={folder / f'{rank}.xml'}"],
        cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def _read(report: Path) -> dict[str, tuple[str, str]]:
    if not report.exists():
        return {"(the whole file)": ("error", "its process ended before the tests did")}
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        bad = next((child for child in case if child.tag in _RANKING), None)
        words = "" if bad is None else f"{bad.get('message') or ''}".strip()
        found[case.get("name", "")] = ("passed" if bad is None else bad.tag, words)
    return found


def main() -> int:
    """Run the suites that were asked for, and tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.upstream.horovod")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", help="suites whose path contains this")
    arguments = parser.parse_args()
    unknown = 0
    for suite in SUITES:
        if arguments.only not in suite.path:
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for packages in [NEEDS, *([KERAS_2] if suite.keras == 2 else [])]:
                _install(packages, folder / "needs")
            found = outcomes(suite, arguments.checkout.resolve(), folder)
        unknown += _tell(suite, found)
    return int(unknown > 0)


def _install(packages: list[str], folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*command, "--target", str(folder), *packages], check=True)


def _tell(suite: Suite, found: dict[str, tuple[str, str]]) -> int:
    counts = collections.Counter(outcome for outcome, _ in found.values())
    print(
        f"\n{suite.path} (Keras {suite.keras}): "
        + ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    )
    unknown = 0
    for test, (outcome, words) in sorted(found.items()):
        reason = KNOWN.get(test)
        if outcome != "passed":
            unknown += reason is None
            print(f"  {outcome}: {test}: {reason or f'reason unknown: {words[:300]}'}")
    return unknown


if __name__ == "__main__":
    sys.exit(main())
