"""What Kubeflow Pipelines tells of a run, in the terms of its tasks: how each is, what it has said and made.

The run has the states. The workflow that it is to Argo has why a pod waits or has failed, and where outputs
were to go. In the log of a step, behind what the step itself said, KFP's launcher writes what it made.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from pipelines.engines import Phase, Step
from pipelines.engines.outputs import outputs
from pipelines.packages.kfp import GROUP

ENDED = {"SUCCEEDED": True, "SKIPPED": True, "FAILED": False, "CANCELED": False}
"""The states of a run that has ended, and whether that is a success."""
_PHASES = {
    "PENDING": Phase.WAITING,
    "RUNNING": Phase.RUNNING,
    "CANCELING": Phase.RUNNING,
    "PAUSED": Phase.WAITING,
    "SUCCEEDED": Phase.SUCCEEDED,
    "SKIPPED": Phase.SKIPPED,
    "FAILED": Phase.FAILED,
    "CANCELED": Phase.FAILED,
    "ERROR": Phase.FAILED,
    "OMITTED": Phase.SKIPPED,
}
"""Of KFP's states, and of Argo's, which are the same in other letters but for the last two."""
_WORST_FIRST = (Phase.FAILED, Phase.RUNNING, Phase.WAITING, Phase.SUCCEEDED, Phase.SKIPPED)
_EXECUTOR = re.compile(r"\.executor(\(\d+\))?$")
_DRIVER = re.compile(r"-driver((\(\d+\))*)$")
_ITERATIONS = re.compile(r"\.iteration-iterations\((\d+):")
_ITERATION = re.compile(r"(\(\d+\))+$")
_MADE_BY_KFP = re.compile(rf"root|onExit|{GROUP.pattern}|iteration-item|iteration-iterations\(.*\)")
_CONTAINER = re.compile(r"^main: \w+ \(exit code \d+\): ")
_OF_THE_LAUNCHER = r"[IWEF]\d{4} [\d:.]+ +\d+ \S+\.go:\d+\] "
_NOT_THE_STEP = re.compile(
    rf'{_OF_THE_LAUNCHER}|time="?\d{{4}}-|Error: exit status \d+'
    r"|\[KFP Executor |\[[^]]*\] \[INFO\] \[executor_main\.py:"
)
"""Lines of KFP's launcher, of Argo's, and of KFP's part in the step's own process."""
_MADE = re.compile(rf"^{_OF_THE_LAUNCHER}ExecutorOutput: (\{{$.*?^\}})$", re.DOTALL | re.MULTILINE)
_DOCUMENTS = re.compile(
    rf"^\{{$.*?^\}}$|^{_OF_THE_LAUNCHER}ExecutorOutput: .*?(?=^{_OF_THE_LAUNCHER}|\Z)",
    re.DOTALL | re.MULTILINE,
)
"""What KFP tells its part of the step, and what that made, of which the log may have the beginning only."""
_HEAD = re.compile(r"^\[[^]]*\] \[\w+\] \[[^]]*\] ")
_LOGS = "executor-logs"

Node = Mapping[str, Any]


def is_pending(run: Any) -> bool:
    """Whether nothing of the run has begun."""
    return str(run.state) == "PENDING"


def steps(run: Any, order: Sequence[str], workflow: Mapping[str, Any]) -> list[Step]:
    """The run's tasks by their paths, in this order, each iteration of a loop for itself.

    KFP lists all that the workflow has, its drivers and groups, too, by bare names; to which pipeline one
    belongs only the workflow says. Without it, tasks of one name are told of together.
    """
    nodes = _tasks(workflow)
    told = (run.run_details.task_details if run.run_details else None) or []
    found: dict[str, Step] = {}
    for path in order:
        name = _leaf(path)
        namesakes = [other for other in order if _leaf(other) == name]
        if own := [each for each in nodes if _ITERATION.sub("", each) == path]:
            found |= {each: _step_of_node(each, nodes[each]) for each in own}
        elif len(namesakes) == 1 or nodes:
            last = [task for task in told if task.display_name == name][-1:] if len(namesakes) == 1 else []
            found[path] = _step(path, last[0]) if last else Step(path)
        else:
            found[name] = _together(name, len(namesakes), [t for t in told if t.display_name == name])
    if str(run.state) not in ENDED:
        _hold_up(found, waits(workflow))
    return [*found.values()]


def _hold_up(found: dict[str, Step], waits: Mapping[str, str]) -> None:
    """Say of steps why they wait; for the driver of a pipeline or a group waits the next that it starts."""
    for path, why in waits.items():
        held = path if path in found else _DRIVER.sub(r"\1", path)
        if held not in found:
            to_come = [name for name, step in found.items() if step == Step(name)]
            inner = [name for name in to_come if name.startswith(f"{held}/")]
            held = next(iter(inner or to_come), "")
        if held:
            found[held] = dataclasses.replace(found[held], phase=Phase.WAITING, detail=why)


def _together(name: str, all_of_them: int, told: Sequence[Any]) -> Step:
    """Tasks of this name: the worst that is told of one, and of how many."""
    phases = [_PHASES.get(str(task.state), Phase.WAITING) for task in told]
    phases += [Phase.WAITING] * (all_of_them - len(phases))
    worst = min(phases, key=[*_WORST_FIRST].index)
    return Step(name, worst, f"{phases.count(worst)} of {len(phases)} of this name")


def waits(workflow: Mapping[str, Any]) -> dict[str, str]:
    """By task, or driver of one, why its pod does not run yet."""
    last = _last_attempts(workflow).items()
    return {_path(name): node["message"] for name, node in last if _is_held_up(node)}


def reasons(workflow: Mapping[str, Any]) -> dict[str, str]:
    """By task, the last words of the pods that failed, but not of an attempt that a better one followed."""
    return {
        _path(name): _CONTAINER.sub("", node.get("message", "")).strip()
        for name, node in _last_attempts(workflow).items()
        if node.get("phase") in {"Failed", "Error"}
    }


def pods(workflow: Mapping[str, Any]) -> list[str]:
    """The names of those in which steps have run."""
    return [_pod(workflow, node) for _, node in _ran(workflow)]


def results(workflow: Mapping[str, Any], logs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What each step said last and what it made, a line each, from the logs of its pods."""
    for task, node in _ran(workflow):
        log = "\n".join(logs.get(_pod(workflow, node), ()))
        own = _DOCUMENTS.sub("", log).splitlines()
        if words := [line for line in own if line.strip() and not _NOT_THE_STEP.match(line)]:
            yield f"{task:<10} {_HEAD.sub('', words[-1])}"
        yield from outputs(task, _made(log) or _meant(node))


def error(told: Any) -> str:
    """What a run or a task says of itself."""
    return told.error.message or "" if told.error else ""


def _made(log: str) -> dict[str, Any]:
    """As the launcher has written it."""
    with contextlib.suppress(ValueError):
        if found := _MADE.search(log):
            return dict(json.loads(found[1]))
    return {}


def _meant(node: Node) -> dict[str, Any]:
    """Where the outputs of a step are that has succeeded: what the driver has told the launcher."""
    told = {port["name"]: port.get("value") for port in node.get("inputs", {}).get("parameters", [])}
    with contextlib.suppress(LookupError, TypeError, ValueError):
        words = json.loads(told["pod-spec-patch"])["containers"][0]["command"]
        artifacts = json.loads(words[words.index("--executor_input") + 1])["outputs"]["artifacts"]
        if node.get("phase") == "Succeeded":
            return {"artifacts": {name: each for name, each in artifacts.items() if name != _LOGS}}
    return {}


def _ran(workflow: Mapping[str, Any]) -> Iterator[tuple[str, Node]]:
    """Each task whose step has run, and its last pod."""
    for name, node in _last_attempts(workflow).items():
        if _EXECUTOR.search(node["name"]):
            yield _path(name), node


def _last_attempts(workflow: Mapping[str, Any]) -> dict[str, Node]:
    """By the task's name in the workflow, the pod that tried it last."""
    found = sorted((node for node in _nodes(workflow) if node["type"] == "Pod"), key=_end)
    return {_EXECUTOR.sub("", node["name"]): node for node in found}


def _pod(workflow: Mapping[str, Any], node: Node) -> str:
    """Its name, as Argo makes it up."""
    return f"{workflow['metadata']['name']}-{node['templateName']}-{node['id'].rpartition('-')[2]}"


def _is_held_up(node: Node) -> bool:
    return node.get("phase") == "Pending" and bool(node.get("message"))


def _nodes(workflow: Mapping[str, Any]) -> list[Node]:
    return [*(workflow.get("status", {}).get("nodes") or {}).values()]


def _tasks(workflow: Mapping[str, Any]) -> dict[str, Node]:
    """The nodes that stand for tasks and pipelines, by their paths."""
    return {_path(node["name"]): node for node in _nodes(workflow) if not _EXECUTOR.search(node["name"])}


def _path(name: str) -> str:
    """`training-2/train`, or `train(0)` in a loop, of `sweep-x.root.exit-handler-1.training-2.train`."""
    parts = name.split(".")[1:]
    own = [part for part in parts if not _MADE_BY_KFP.fullmatch(part)]
    return "/".join(own) + "".join(f"({number})" for number in _ITERATIONS.findall(name))


def _leaf(path: str) -> str:
    return path.rpartition("/")[2]


def _end(node: Node) -> str:
    return node.get("finishedAt") or "~"


def _step_of_node(path: str, node: Node) -> Step:
    began, ended = (_time(node.get(key)) for key in ("startedAt", "finishedAt"))
    return Step(path, _PHASES.get(str(node.get("phase")).upper(), Phase.WAITING), began=began, ended=ended)


def _time(text: str | None) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None


def _step(path: str, task: Any) -> Step:
    return Step(
        name=path,
        phase=_PHASES.get(str(task.state), Phase.WAITING),
        detail=error(task),
        began=task.start_time.timestamp() if task.start_time else None,
        ended=task.end_time.timestamp() if task.end_time and task.end_time > task.start_time else None,
    )
