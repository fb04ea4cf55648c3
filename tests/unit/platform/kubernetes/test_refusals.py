"""What the API server's refusals are taken for; on a real one `tests/cluster/test_api.py` looks at them."""

import subprocess
from pathlib import Path

import pytest
import yaml

from elastic_runtime.errors import Unavailable
from elastic_runtime.platform.kubernetes.errors import RIGHTS, Away, Forbidden, NoQuota, of_status
from elastic_runtime.platform.kubernetes.submission import VERDICTS

ROOT = Path(__file__).parents[4]


def remedy(user: str, verb: str = "create", resource: str = "pods") -> str:
    """Of this right's lack in namespace `team`, in the words of the API server."""
    lacks = f'User "{user}" cannot {verb} resource "{resource}" in API group "" in the namespace "team"'
    return of_status({"code": 403, "message": f"{resource} is forbidden: {lacks}"}).remedy


def test_a_quota_that_nobody_has_counted_yet_is_waited_for_like_a_full_one() -> None:
    """So it is for a moment after it was made, which no test can hold."""
    uncounted = 'pods "a" is forbidden: status unknown for quota: few, resources: pods'
    assert type(of_status({"code": 403, "message": uncounted})) is NoQuota
    assert type(of_status({"code": 403, "message": 'pods "a" is forbidden: no'})) is Forbidden


def test_a_server_that_is_away_is_no_verdict_but_ends_a_step_like_a_store_that_is_away() -> None:
    assert Away("no answer").exit_code == Unavailable.exit_code == 69
    assert Away.exit_code not in VERDICTS
    assert Forbidden("no").exit_code == 1


def test_the_default_account_is_given_its_rights_in_its_namespace() -> None:
    default = "system:serviceaccount:team:default"
    assert remedy(default) == "kubectl apply -n team -f manifests/elasticdl-rbac.yaml"
    assert remedy(default, "patch") == "kubectl apply -n team -f manifests/elasticdl-steps-rbac.yaml"


@pytest.mark.parametrize("verb", ["create", "patch"])
def test_another_account_is_given_them_beside_default(verb: str) -> None:
    command, _, apply = remedy("system:serviceaccount:team:trainer", verb).partition(" | ")
    assert apply == "kubectl apply -n team -f -"
    made = subprocess.run(["bash", "-c", command], cwd=ROOT, check=True, capture_output=True, text=True)
    role, binding = yaml.safe_load_all(made.stdout)
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "trainer"}]
    assert role["metadata"]["name"] == binding["metadata"]["name"] == binding["roleRef"]["name"]
    assert "-trainer" in role["metadata"]["name"]
    assert role["metadata"]["labels"]["app.kubernetes.io/name"] == "elasticdl"


@pytest.mark.parametrize("user", ["jane", "system:serviceaccount:elsewhere:default"])
def test_whoever_no_manifest_is_for_is_told_to_ask(user: str) -> None:
    assert remedy(user).startswith("ask for this right; manifests/elasticdl-rbac.yaml ")


def test_no_manifest_is_named_for_a_right_that_none_gives() -> None:
    assert remedy("system:serviceaccount:team:default", "get", "pods/exec").startswith("ask for this right")


@pytest.mark.parametrize("file", RIGHTS)
def test_the_rights_are_those_of_the_manifest(file: str) -> None:
    role, _ = yaml.safe_load_all((ROOT / file).read_text())
    given = {kind: " ".join(rule["verbs"]) for rule in role["rules"] for kind in rule["resources"]}
    assert RIGHTS[file] == given
