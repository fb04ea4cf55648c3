"""What whoever types a command needs as rights: the table of docs/kubernetes.md, row by row; its manifest.

Each row's commands are typed by somebody who has that row's rights and no others: nothing is refused to them,
and none is there for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from elastic_runtime.cli.main import main
from tests.unit.platform.kubernetes.small_server import Right, Server, small_server

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()
TRAIN = (
    *("train", "--job_name=j", "--namespace=n", "--image_name=registry.example/m:1", "--model_def=m.model"),
    *("--model_zoo=/zoo", "--training_data=s3://d"),
)


def table() -> dict[str, set[Right]]:
    """The rights by what is typed."""
    head, rows = re.findall(r"^(\| what is typed .*)\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)[0]
    resources = re.findall(r"`([^`]+)`", head)
    found = {}
    for row in rows.splitlines():
        typed, *cells = [cell.strip() for cell in row.strip("|").split("|")]
        verbs = [
            (resource, cell.split(", ")) for resource, cell in zip(resources, cells, strict=True) if cell
        ]
        found[typed] = {(resource, verb) for resource, each in verbs for verb in each}
    return found


def typed(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(words)
    return int(str(end.value.code))


def trains(server: Server) -> None:
    """To the end, where a service of its name is nobody's; again, since it failed; then for nothing."""
    server.make("services", {"metadata": {"name": "elasticdl-j-master"}})
    server.exit_code = 1
    assert typed(*TRAIN) == 1
    server.exit_code = 0
    assert typed(*TRAIN) == 0
    server.objects.clear()
    server.is_full = True
    assert typed(*TRAIN) == 1
    assert server.objects == {}


def with_a_job(commands: Callable[[Server], None]) -> Callable[[Server], None]:
    """In a namespace where it runs, which takes rights that the commands do not need."""

    def run(server: Server) -> None:
        rights, server.rights = server.rights, set().union(*table().values())
        assert typed(*TRAIN, "--detach") == 0
        server.rights = rights
        server.used.clear()
        commands(server)

    return run


@with_a_job
def cleans(server: Server) -> None:
    assert typed("job", "clean", "j", "--namespace=n", "--force") == 0
    assert server.objects == {}


@with_a_job
def lists(_: Server) -> None:
    assert typed("job", "list", "--namespace=n") == 0


@with_a_job
def shows_logs(_: Server) -> None:
    assert typed("job", "logs", "j", "--namespace=n") == 0


@with_a_job
def asks_the_master(_: Server) -> None:
    for command in ("status", "pods", "ledger", "stop"):
        assert typed("job", command, "j", "--namespace=n") == 0


COMMANDS = {
    "`elasticdl train`, `evaluate`, `predict`": trains,
    "`elasticdl job clean`; with `--restart` also the above": cleans,
    "`elasticdl job list`": lists,
    "`elasticdl job logs`": shows_logs,
    "`elasticdl job status`, `pods`, `ledger`, `stop`": asks_the_master,
}
LATER = {("pods/exec", "create")}
"""What no server has asked for before Kubernetes 1.35, nor does this one."""


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    with small_server(tmp_path / "kubeconfig") as server:
        yield server


def test_the_page_tells_of_every_command_that_asks_a_cluster() -> None:
    assert table().keys() == COMMANDS.keys()


@pytest.mark.parametrize("row", COMMANDS)
def test_a_row_has_the_rights_that_its_commands_need_and_no_others(serving: Server, row: str) -> None:
    serving.rights = table()[row]
    COMMANDS[row](serving)
    assert serving.refused == []
    assert serving.used == table()[row] - LATER


def test_to_begin_anew_takes_the_rights_to_submit_and_to_clean_up(serving: Server) -> None:
    submits, cleans_up, *_ = table().values()
    serving.rights = submits | cleans_up
    assert typed(*TRAIN, "--detach") == 0
    assert typed(*TRAIN, "--detach", "--restart") == 0
    assert serving.refused == []


def test_the_manifest_gives_them_all_and_no_more() -> None:
    (role,) = yaml.safe_load_all((ROOT / "manifests" / "elasticdl-user-rbac.yaml").read_text())
    assert role["kind"] == "Role"
    given = [
        (rule["apiGroups"], kind, verb)
        for rule in role["rules"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    ]
    assert {(kind, verb) for _, kind, verb in given} == set().union(*table().values())
    assert all(groups == [""] for groups, _, _ in given)


def test_who_lacks_a_right_is_told_where_they_are(
    serving: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("job", "list", "--namespace=n") == 1
    assert "manifests/elasticdl-user-rbac.yaml" in capsys.readouterr().err
