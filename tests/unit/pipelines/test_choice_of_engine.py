"""Which engine is taken, and why: what is configured, what answers, what it has, what was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pipelines.command import main
from pipelines.engines import kfp
from pipelines.mnist import mnist, mnist_on_argo

ARGO = {"GET /apis/argoproj.io/v1alpha1": lambda _: {"resources": [{"name": "workflows"}]}}
KFP = {
    "GET /api/v1/namespaces/kubeflow/services/ml-pipeline": lambda _: {"metadata": {"name": "ml-pipeline"}}
}
MAY_NOT = {"GET /api/v1/namespaces/kubeflow/services/ml-pipeline": lambda _: 403}
HAS_KFP = {
    "GET /apis/kubeflow.org/v1beta1": lambda _: {
        "resources": [{"name": "notebooks"}, {"name": "scheduledworkflows"}]
    }
}
HAS_NOTEBOOKS = {"GET /apis/kubeflow.org/v1beta1": lambda _: {"resources": [{"name": "notebooks"}]}}
ELSEWHERE = {
    "GET /api/v1/namespaces/mine/services/ml-pipeline": lambda _: {"metadata": {"name": "ml-pipeline"}}
}


def would_run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """On what, and the kind of what would be submitted there."""
    assert main(mnist, argo=mnist_on_argo, argv=["--dry_run", *words]) == 0
    said = capsys.readouterr()
    line = said.err.splitlines()[-1]  # a log may have told of a wait before
    head = next(yaml.safe_load_all(said.out))
    return line.removeprefix("this would run on "), head.get("kind", "IR")


@pytest.fixture
def cluster(serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def of(*answers: dict, namespace: str = ""):
        server = serve({request: answer for each in answers for request, answer in each.items()})
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig", namespace)))
        return server

    return of


def test_with_nothing_configured_it_runs_here(capsys) -> None:
    why, kind = would_run(capsys)
    assert why.startswith("this machine (no cluster is configured")
    assert kind == "IR"


def test_a_cluster_with_argo_takes_the_workflow(cluster, capsys) -> None:
    server = cluster(ARGO)
    assert would_run(capsys) == (f"Argo in namespace default of the cluster {server.address}", "Workflow")
    assert {request.partition(" ")[0] for request in server.asked} == {"GET"}


@pytest.mark.parametrize(("words", "taken"), [((), "team"), (("--namespace=other",), "other")])
def test_the_namespace_is_kubectls_or_the_one_that_is_named(cluster, capsys, words, taken) -> None:
    cluster(ARGO, namespace="team")
    assert would_run(capsys, *words)[0].startswith(f"Argo in namespace {taken} of")


def test_a_cluster_with_neither_is_told_of(cluster, capsys) -> None:
    server = cluster()
    why, _ = would_run(capsys)
    assert why.startswith(
        "this machine (no KF_PIPELINES_ENDPOINT is set, and namespace kubeflow of the cluster"
    )
    assert f"{server.address} has no Argo" in why


def test_kfp_in_the_cluster_goes_before_the_argo_that_it_brings(cluster, capsys) -> None:
    server = cluster(ARGO, KFP)
    why, kind = would_run(capsys)
    assert why.startswith(f"Kubeflow Pipelines at {server.address}/api/v1/namespaces/kubeflow/services/")
    assert kind == "IR"
    assert would_run(capsys, "--engine=argo")[1] == "Workflow"


def test_kfp_may_be_in_another_namespace(cluster, capsys, monkeypatch) -> None:
    cluster(ARGO, ELSEWHERE)
    monkeypatch.setenv("KF_PIPELINES_NAMESPACE", "mine")
    assert "has service mine/ml-pipeline" in would_run(capsys)[0]


@pytest.mark.parametrize("words", [[], ["--engine=kfp"]])
def test_where_there_is_a_kfp_that_may_not_be_seen_its_argo_is_not_taken(cluster, capsys, words) -> None:
    server = cluster(ARGO, MAY_NOT, HAS_KFP)
    assert main(mnist, argo=mnist_on_argo, argv=["--dry_run", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"error: {server.address}: the cluster has Kubeflow Pipelines, and whether that is "
    )
    assert "kubeflow/ml-pipeline you may not see: no such thing (set KF_PIPELINES_ENDPOINT" in line
    assert would_run(capsys, "--engine=argo")[1] == "Workflow"


@pytest.mark.parametrize("known", [{}, HAS_NOTEBOOKS])
def test_without_kfp_in_the_cluster_nobody_needs_the_right_to_look_for_it(cluster, capsys, known) -> None:
    cluster(ARGO, MAY_NOT, known)
    assert would_run(capsys)[0].startswith("Argo in namespace default of")


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """This process is in a pod, where KFP's service has this name; there may be none of it."""

    def of(name: str) -> None:
        (tmp_path / "token").touch()
        monkeypatch.setattr(kfp, "TOKEN", tmp_path / "token")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setattr(kfp.kfp.Client, "_IN_CLUSTER_DNS_NAME", name)

    return of


@pytest.mark.parametrize("words", [[], ["--engine=kfp"]])
def test_a_pod_finds_kfp_by_its_name_and_needs_no_right_to_see_the_service(
    cluster, pod, capsys, words
) -> None:
    cluster(ARGO, MAY_NOT, HAS_KFP)
    pod("localhost:8888")
    why, kind = would_run(capsys, *words)
    assert why == "Kubeflow Pipelines at http://localhost:8888 (its name in the cluster of this pod)"
    assert kind == "IR"


def test_a_pod_where_that_name_is_not_known_takes_argo(cluster, pod, capsys) -> None:
    cluster(ARGO, MAY_NOT)
    pod("ml-pipeline.{}.svc.invalid:8888")
    assert would_run(capsys)[1] == "Workflow"
    assert main(mnist, argo=mnist_on_argo, argv=["--dry_run", "--engine=kfp"]) == 2
    said = capsys.readouterr().err
    assert "the cluster of this pod has nothing of the name ml-pipeline.kubeflow.svc.invalid:8888" in said


@pytest.mark.parametrize("text", ["https://kfp.example", "https://kfp.example/", "kfp.example"])
def test_an_endpoint_of_kfp_goes_before_any_cluster_which_is_not_asked(
    cluster, capsys, monkeypatch, text
) -> None:
    server = cluster(ARGO)
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", text)
    assert would_run(capsys)[0] == (
        "Kubeflow Pipelines at https://kfp.example (KF_PIPELINES_ENDPOINT says so)"
    )
    assert server.asked == []


def test_what_is_asked_for_goes_before_what_is_there(cluster, capsys) -> None:
    cluster(ARGO, KFP)
    assert would_run(capsys, "--engine=local")[0] == "this machine (--engine=local)"


def test_a_cluster_that_does_not_answer_counts_as_none_and_is_told_of(
    serve, tmp_path, capsys, monkeypatch
) -> None:
    server = serve({})
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
    server.close()
    why, _ = would_run(capsys)
    assert why == "this machine (the API server cannot be reached: the connection is refused)"


@pytest.mark.parametrize(
    ("engine", "said"),
    [("argo", "no cluster is configured"), ("kfp", "or set KF_PIPELINES_ENDPOINT")],
)
def test_an_engine_that_is_asked_for_and_not_there_is_an_error(capsys, engine, said) -> None:
    assert main(mnist, argo=mnist_on_argo, argv=["--dry_run", f"--engine={engine}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_argo_is_refused_where_the_pipeline_has_no_workflow(cluster, capsys) -> None:
    cluster(ARGO)
    assert main(mnist, argv=["--dry_run", "--engine=argo"]) == 2
    assert "no workflow for Argo" in capsys.readouterr().err
    assert main(mnist, argv=["--dry_run"]) == 0
    assert "this machine" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--dry_run"], ["--engine=local"], ["--engine=none"]])
def test_a_namespace_is_refused_where_there_is_no_cluster(capsys, words) -> None:
    assert main(mnist, argo=mnist_on_argo, argv=[*words, "--namespace=team"]) == 2
    assert "--namespace: " in capsys.readouterr().err
