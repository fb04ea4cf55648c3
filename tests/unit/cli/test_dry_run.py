"""`--dry_run` and `--yaml`: what a user may apply, such that all that comes of it goes with the job."""

import json

import pytest
import yaml

from elastic_runtime.cli.main import main
from elastic_runtime.platform.kubernetes.belongings import PLACEHOLDER
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.job import JobSpec
from tests.unit.platform.kubernetes.plans import TUTORIAL

JOB = (
    *("train", "--job_name=j", "--image_name=registry/m:1", "--model_zoo=/zoo", "--model_def=m.model"),
    *("--training_data=/data", "--num_ps_pods=2", "--volume=host_path=/data,mount_path=/data"),
)


def shown(capsys, *options):
    with pytest.raises(SystemExit) as ended:
        main([*JOB, *options])
    assert ended.value.code == 0
    return capsys.readouterr().out


def applied(text):
    """The objects that `kubectl apply` makes of it."""
    return [each for each in yaml.safe_load_all(text) if each]


def test_every_object_but_the_pods_that_the_master_makes_is_shown_to_be_applied(capsys):
    text = shown(capsys, "--dry_run", "-o", "yaml")
    made = [
        ("ConfigMap", "elasticdl-j"),
        ("Secret", "elasticdl-j"),
        ("Service", "elasticdl-j-master"),
        ("Service", "elasticdl-j-ps-0"),
        ("Service", "elasticdl-j-ps-1"),
        ("Pod", "elasticdl-j-master"),
    ]
    assert [(each["kind"], each["metadata"]["name"]) for each in applied(text)] == made
    listed = json.loads(shown(capsys, "--dry_run", "-o", "json"))["items"]
    assert listed == applied(text)
    head = " ".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    assert "Its master makes the pods of 2 parameter servers and up to 2 workers" in head


def test_the_pods_that_the_master_makes_are_shown_as_comments(capsys, tmp_path):
    (tmp_path / "spec.py").write_text(TUTORIAL)
    priority = ("--worker_pod_priority=high=0.5", f"--cluster_spec={tmp_path / 'spec.py'}")
    _, text = shown(capsys, "--dry_run", "-o", "yaml", *priority).split("when it begins:\n")
    pods = applied("".join(line[2:] for line in text.splitlines(keepends=True)))
    assert [each["metadata"]["name"] for each in pods] == [
        f"elasticdl-j-{name}" for name in ("ps-0", "ps-1", "worker-0", "worker-1")
    ]
    assert [each["spec"]["priorityClassName"] for each in pods] == ["high", "high", "high", "low"]
    assert all(each["spec"]["tolerations"][0]["key"] == "mycluster.com/app-pool" for each in pods)
    words = pods[-1]["spec"]["containers"][0]["command"]
    assert words[:3] == ["python", "-m", "elastic_runtime.worker"]
    assert "--master_addr=elasticdl-j-master:50001" in words


def test_the_token_is_in_no_file_and_the_master_starts_without_one(capsys, tmp_path):
    text = shown(capsys, "--dry_run", f"--yaml={tmp_path / 'job.yaml'}")
    assert (tmp_path / "job.yaml").read_text() == text
    _, secret, *_, pod = applied(text)
    assert secret["stringData"] == {"token": PLACEHOLDER}
    assert "immutable" not in secret
    (token,) = (each for each in pod["spec"]["containers"][0]["env"] if each["name"] == "ELASTICDL_TOKEN")
    assert token["valueFrom"]["secretKeyRef"]["optional"] is True


def test_the_variables_of_whoever_looks_are_not_shown_as_those_that_the_master_adds(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.setenv("SECRET_KEY", "hunter2")
    given = ("--populate_env_names=SECRET.*", "--envs=SEEN=1", f"--yaml={tmp_path / 'job.yaml'}")
    text = shown(capsys, "--dry_run", *given)
    assert "hunter2" not in text
    assert "SECRET_KEY" not in text
    assert (tmp_path / "job.yaml").read_text() == text
    assert "of pods when it begins, besides variables of its own that fit SECRET.*:\n" in text
    pods = applied("".join(line[2:] for line in text.split("SECRET.*:\n")[1].splitlines(keepends=True)))
    given_to_all = {"name": "SEEN", "value": "1"}
    assert all(given_to_all in each["spec"]["containers"][0]["env"] for each in pods)


@pytest.mark.parametrize("asked", [["--dry_run"], ["--yaml=FILE"], ["--dry_run", "--detach", "-o", "json"]])
def test_the_job_that_is_shown_is_one_that_runs(capsys, tmp_path, asked):
    asked = [word.replace("FILE", str(tmp_path / "job")) for word in asked]
    text = shown(capsys, *asked) or (tmp_path / "job").read_text()
    anchor, *_, pod = json.loads(text)["items"] if "json" in asked else applied(text)
    kept = JobSpec.from_json(anchor["data"]["job.json"])
    assert (kept.dry_run, kept.yaml, kept.dry_run_format, kept.detach) == (False, "", "yaml", False)
    command = pod["spec"]["containers"][0]["command"]
    assert parse("master", command[3:]).spec == kept
    assert not [word for word in command if "dry_run" in word or "yaml" in word or "detach" in word]


@pytest.mark.parametrize("index", ["", "https://pypi.example/simple"])
def test_a_master_says_nothing_of_how_its_image_was_built(capsys, tmp_path, index):
    (tmp_path / "m.py").touch()
    job = (*JOB[:2], f"--model_zoo={tmp_path}", "--model_def=m.model", *JOB[5:], "--base_image=registry/b:1")
    with pytest.raises(SystemExit):
        main([*job, f"--extra_pypi_index={index}", "--dry_run"])
    *_, pod = applied(capsys.readouterr().out)
    command = pod["spec"]["containers"][0]["command"]
    assert [said for said in parse("master", command[3:]).notices if "no effect" in said] == []
