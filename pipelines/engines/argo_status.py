"""What a workflow's status says, in the terms of its tasks: how each is, and what it has made.

Argo keeps a node for the workflow, each task, each attempt at a task; what a user means by a step is a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from elastic_runtime.observe import figures
from pipelines.engines import Phase, Step, why_failed

_PHASES = {
    "Pending": Phase.WAITING,
    "Running": Phase.RUNNING,
    "Succeeded": Phase.SUCCEEDED,
    "Failed": Phase.FAILED,
    "Error": Phase.FAILED,
    "Skipped": Phase.SKIPPED,
    "Omitted": Phase.SKIPPED,
}
_GROUPS = {"DAG", "Steps", "StepGroup", "TaskGroup"}
_LOGS = "main-logs"

Node = Mapping[str, Any]


def phase(workflow: Mapping[str, Any]) -> str:
    """How the workflow ended; empty as long as it has not."""
    found = str(workflow.get("status", {}).get("phase", ""))
    return found if found in {"Succeeded", "Failed", "Error"} else ""


def steps(workflow: Mapping[str, Any], order: Sequence[str]) -> list[Step]:
    """Each task in the order they are written; one that Argo has not come to yet waits."""
    found = {_path(workflow, node): _step(workflow, node) for node in _tasks(workflow)}
    seen = {name.rpartition("/")[2] for name in found}
    listed = [*found.values(), *(Step(name) for name in dict.fromkeys(order) if name not in seen)]
    places = {name: place for place, name in enumerate(order)}
    return sorted(listed, key=lambda step: places.get(step.name.rpartition("/")[2], len(places)))


def reason(workflow: Mapping[str, Any]) -> str:
    """Why it failed: the steps that did, and what is said of each; what Argo says of the whole is less."""
    told = why_failed(steps(workflow, ()))
    return told or workflow["status"].get("message") or phase(workflow).lower()


def results(workflow: Mapping[str, Any], said: Mapping[str, str]) -> Iterator[str]:
    """What each task gave, a line each: its values, its last words, where its artifacts are."""
    for node in _tasks(workflow):
        last, name = _attempts(workflow, node)[-1], f"{_path(workflow, node):<10}"
        outputs = node.get("outputs") or last.get("outputs") or {}
        for port in outputs.get("parameters", []):
            if port.get("value"):  # a step that failed gave none
                yield f"{name} {port['name']}: {port['value']}"
        if words := said.get(last["id"]):
            yield f"{name} {words}"
        for artifact in outputs.get("artifacts", []):
            if artifact["name"] != _LOGS:
                yield f"{name} {artifact['name']}: {_place(workflow, artifact)}"


def _tasks(workflow: Mapping[str, Any]) -> list[Node]:
    """The nodes that are tasks, in the order in which they began."""
    nodes = workflow.get("status", {}).get("nodes") or {}
    attempts = {child for node in nodes.values() if node["type"] == "Retry" for child in _children(node)}
    found = [n for n in nodes.values() if n["type"] not in _GROUPS and n["id"] not in attempts]
    return sorted(found, key=lambda node: node.get("startedAt") or "~")


def _attempts(workflow: Mapping[str, Any], node: Node) -> list[Node]:
    """The pods that tried it, the last one last; a task that is not repeated is its own attempt."""
    nodes = workflow["status"]["nodes"]
    made = [nodes[child] for child in _children(node) if child in nodes] if node["type"] == "Retry" else []
    return sorted(made, key=lambda each: each.get("startedAt") or "~") or [node]


def _children(node: Node) -> list[str]:
    return list(node.get("children") or [])


def _path(workflow: Mapping[str, Any], node: Node) -> str:
    """`train`, or `inner/train` where a task is itself a DAG."""
    nodes, names = workflow["status"]["nodes"], [str(node["displayName"])]
    while (node := nodes.get(node.get("boundaryID", ""), {})) and node.get("boundaryID"):
        names.insert(0, str(node["displayName"]))
    return "/".join(names)


def _step(workflow: Mapping[str, Any], node: Node) -> Step:
    attempts = _attempts(workflow, node)
    now = _PHASES.get(node.get("phase", ""), Phase.WAITING)
    if now is Phase.RUNNING:
        now = _PHASES.get(attempts[-1].get("phase", ""), now)
        now = Phase.WAITING if now is Phase.FAILED else now  # for the next attempt
    done, _, of = str(attempts[-1].get("progress", "")).partition(
        "/"
    )  # the task's own counts what follows, too
    is_far = now is Phase.RUNNING and of not in {"", "0", "1"}
    far = f"{figures.count(int(done))} of {figures.count(int(of))}" if is_far else ""
    number = f"attempt {len(attempts)}" if len(attempts) > 1 else ""
    why = "" if now in {Phase.SUCCEEDED, Phase.RUNNING} else _why(attempts[-1].get("message", ""))
    return Step(
        name=_path(workflow, node),
        phase=now,
        detail=", ".join(filter(None, [far, number, why])),
        began=_time(node.get("startedAt")),
        ended=_time(node.get("finishedAt")),
    )


def _why(message: str) -> str:
    """Argo's reason; after a step that was lost it has the end of the log for one."""
    return message.strip() if "\n" not in message.strip() else message.partition("): ")[0].strip() + ")"


def _time(text: str | None) -> float | None:
    return datetime.fromisoformat(text).timestamp() if text else None


def _place(workflow: Mapping[str, Any], artifact: Mapping[str, Any]) -> str:
    """As a URI, where the store is known by one."""
    common = workflow["status"].get("artifactRepositoryRef", {}).get("artifactRepository", {})
    for kind, scheme in (("s3", "s3"), ("gcs", "gs")):
        if kind in artifact:
            bucket = artifact[kind].get("bucket") or common.get(kind, {}).get("bucket", "")
            return f"{scheme}://{bucket}/{artifact[kind].get('key', '')}"
    return next((f"{kind}: {text}" for kind, text in artifact.items() if isinstance(text, dict)), "")
