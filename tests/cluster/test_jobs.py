"""Jobs on a real cluster, from the command to nothing left."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys

import pytest

from elastic_runtime.platform.kubernetes.belongings import PLACEHOLDER
from elastic_runtime.platform.kubernetes.labels import all_of
from elastic_runtime.platform.process.claim import claim
from elastic_runtime.steps.build_image import build_image
from tests.cluster.jobs import SECONDS, ClusterJob
from tests.cluster.kit import builder, faults
from tests.process.job.harness import ZOO

pytestmark = [pytest.mark.timeout(1200)]  # each wait has its own, shorter limit


def begun(job: ClusterJob, *, workers: int) -> ClusterJob:
    """It trains with all its workers; while one of them comes late, next to nothing is done without it."""
    job.pace(2)
    job.start().until_said(r"worker elasticdl-\S+ joined", times=workers)
    job.pace(0.05)
    job.until_training(workers)
    return job


def test_a_job_with_a_parameter_server_runs_from_the_command_to_nothing_left(
    make_job, cluster, job_image
) -> None:
    """Its master and its parameter server run in the small image, which has no TensorFlow."""
    small = builder.images(cluster).base
    evaluated = ("--validation_data=/job/data", "--evaluation_steps=40")
    images = (f"--image_name={small}", f"--ps_image={small}", f"--worker_image={job_image}")
    job = begun(make_job("--num_workers=2", "--num_epochs=2", *evaluated, *images), workers=2)
    assert {name: pod.spec.containers[0].image for name, pod in job.pods().items()} == {
        **dict.fromkeys(("master", "ps-0"), small),
        **dict.fromkeys(("worker-0", "worker-1"), job_image),
    }
    job.pace(0)
    verdict = job.assert_right_end(epochs=2)
    assert "2 400 records in 2 epochs" in verdict
    assert "ElasticDL job j was successfully submitted. The master pod is: elasticdl-j-master." in job.text()
    assert len(re.findall(r"Evaluation metrics\[v=\d+\]", job.text())) >= 2


def test_what_the_job_commands_say_of_a_job_in_the_cluster(make_job) -> None:
    job = begun(make_job("--num_workers=1", "--num_epochs=100"), workers=1)
    job.pace(0.5)  # so that the first epoch lasts however long the commands take
    status = job.job("status")
    assert status.returncode == 0, status.stderr
    assert status.stdout.startswith("job j: running")
    pods = json.loads(job.job("pods", "--json").stdout)
    assert {pod["name"] for pod in pods} == {job.pod(name) for name in ("master", "ps-0", "worker-0")}
    assert "Loss = " in job.job("logs", "worker-0").stdout
    listed = job.again_with("job", "list", "-n", job.namespace.name, "--json")
    assert json.loads(listed.stdout) == [{"job": "j", "master": "running"}]
    (epoch,) = json.loads(job.job("ledger", "--json").stdout)
    assert epoch["epoch"] == 1
    refused = job.job("clean")
    assert refused.returncode == 1
    assert "the job's master is running" in refused.stderr
    job.pace(0.05)
    stopped = job.job("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert job.ends() == 130
    assert job.job("clean").returncode == 0
    assert job.left() == []


def test_a_log_is_followed_to_its_end_though_the_api_server_was_away(make_job, cluster) -> None:
    job = begun(make_job("--num_workers=1"), workers=1)
    job.pace(0.5)  # so that it does not end meanwhile
    words = ("-m", "elastic_runtime", "job", "logs", job.name, "-n", job.namespace.name, "-f")
    followed, nothing = job.folder / "followed.txt", subprocess.DEVNULL
    with (
        followed.open("wb") as output,
        subprocess.Popen(
            [sys.executable, *words], stdout=output, stderr=nothing, env=job.environment()
        ) as follower,
    ):
        try:
            job.until(lambda: "joined" in followed.read_text(), "it is followed")
            with faults.api_server_stopped(cluster), pytest.raises(subprocess.TimeoutExpired):
                follower.wait(5)
            job.pace(0)
            job.assert_right_end()
            assert follower.wait(SECONDS) == 0
        finally:
            follower.kill()
    assert followed.read_text().splitlines() == [*job.api.pod_log(job.pod("master"))]


def test_a_job_that_was_applied_by_hand_goes_on_with_another_master_and_leaves_nothing(make_job) -> None:
    """From what the command prints; its journal is on a volume, which one master leaves to the next."""
    job = make_job("--num_workers=1", "--num_epochs=2", "--run_dir=/job/run")
    job.pace(0.05)
    printed = job.again("--dry_run", "-o", "yaml")
    assert printed.returncode == 0, printed.stderr
    assert job.left() == []
    assert job.namespace.kubectl("apply", "-f", "-", given=printed.stdout).splitlines() == [
        "configmap/elasticdl-j created",
        "secret/elasticdl-j created",
        "service/elasticdl-j-master created",
        "service/elasticdl-j-ps-0 created",
        "pod/elasticdl-j-master created",
    ]
    summary = job.run / "summary.json"
    job.until(lambda: summary.exists() and json.loads(summary.read_text())["records_done"], "a shard is done")
    job.pace(0.5)  # it shall not end before its master does
    assert job.in_the_config_map() == []
    secret = job.api.get_secret("elasticdl-j")
    assert base64.b64decode(secret.data["token"]).decode() != PLACEHOLDER
    before = {name: pod.metadata.uid for name, pod in job.pods().items()}
    assert "secret/" not in job.namespace.kubectl("apply", "-f", "-", given=printed.stdout, check=False)
    assert {name: pod.metadata.uid for name, pod in job.pods().items()} == before
    assert job.api.get_secret("elasticdl-j").data == secret.data
    services = job.api.list_services(all_of("j")).items
    owners = [owner.name for each in (secret, *services) for owner in each.metadata.owner_references]
    assert owners == ["elasticdl-j"] * 3
    job.namespace.kubectl("delete", "pod", job.pod("master"))
    assert set(job.pods()) == {"ps-0", "worker-0"}
    with claim(job.run, "j"):  # as an earlier master would that is cut off, and knows nothing of its end
        again = job.again("--detach")
        assert again.returncode == 0, again.stderr
        job.until(
            lambda: "waiting for its end, 60 s at most" in "\n".join(job.api.pod_log(job.pod("master"))),
            "the next master waits",
        )
    job.pace(0)
    followed = job.job("logs", "-f")
    assert followed.returncode == 0, followed.stderr
    assert re.search(r"goes on where it was left: [1-9]\d* records done", followed.stdout)
    job.namespace.wait_for_phase("Succeeded", f"pod/{job.pod('master')}")
    assert "job j succeeded: 2 400 records in 2 epochs" in followed.stdout.splitlines()[-1]
    assert f"worker {job.pod('worker-0')} is back" in followed.stdout
    job.until_gone(but=("Pod/elasticdl-j-master",))
    once_more = job.again("--detach")
    assert once_more.returncode == 0
    assert "has succeeded already" in once_more.stderr
    other = job.again("--detach", "--num_epochs=3")
    assert other.returncode == 2
    assert "--num_epochs=2 became 3" in other.stderr
    job.start("--restart").assert_right_end(epochs=2)


MARKING = """
class Cluster:
    def with_pod(self, pod):
        pod.metadata.labels["corrected"] = "yes"
        return pod

    def with_service(self, service):
        return service


cluster = Cluster()
"""


def test_a_job_goes_on_by_what_is_corrected_and_with_its_journal_on_a_volume(make_job) -> None:
    """Neither the cluster spec nor the place of the journal is what it was begun with."""
    job = make_job("--num_workers=1")
    for name in ("run", "elasticdl"):
        (job.folder / name).mkdir()
        (job.folder / name).chmod(0o777)
    begun(job, workers=1)
    assert job.job("stop").returncode == 0
    assert job.ends() == 130
    told = job.job("status").stdout.splitlines()
    assert told[0] == "job j: stopped, asked for by `elasticdl job stop`"
    assert re.match(r"epoch 1 of 1, version [1-9]\d*, [1-9]\d* of 1 200 records$", told[1])
    (job.folder / "spec.py").write_text(MARKING)
    job.pace(0.5)
    again = ("--run_dir=/job/run", f"--cluster_spec={job.folder / 'spec.py'}")
    job.start(*again).until_said(r"goes on where it was left: [1-9]\d* records done")
    job.until_said(r"the model is that of /job/elasticdl/j/checkpoints/version-[1-9]")
    job.until_said(r"worker elasticdl-\S+ joined", times=2)
    marks = {name: pod.metadata.labels.get("corrected") for name, pod in job.pods().items()}
    assert marks == dict.fromkeys(marks, "yes")
    assert job.in_the_config_map() == []
    assert job.job("status").stdout.startswith("job j: running")
    job.pace(0)
    job.assert_right_end()
    elsewhere = job.again("--detach")
    assert "has succeeded already" in elsewhere.stderr


def test_a_job_that_has_lost_its_master_is_looked_at_and_cleaned_by_its_name_alone(make_job) -> None:
    job = begun(make_job("--num_workers=1", "--num_epochs=100"), workers=1)
    job.abandon()
    job.namespace.kubectl("delete", "pod", job.pod("master"))
    status = job.job("status")
    assert status.stdout.startswith("job j: without master\nepoch 1 of 100, version ")
    (epoch,) = json.loads(job.job("ledger", "--json").stdout)
    assert epoch["records_done"] > 0
    pods = {pod["name"]: pod["state"] for pod in json.loads(job.job("pods", "--json").stdout)}
    assert pods == dict.fromkeys((job.pod("ps-0"), job.pod("worker-0")), "running")
    stopped = job.job("stop")
    assert stopped.returncode == 1
    assert "the job has no master (the command that began it goes on with it" in stopped.stderr
    misspelt = job.again_with("job", "clean", "jj", "-n", job.namespace.name)
    assert misspelt.returncode == 2
    assert "unknown job 'jj' (did you mean 'j'?)" in misspelt.stderr
    assert job.job("clean").returncode == 0
    assert job.left() == []


def test_a_volume_that_cannot_be_mounted_is_said_of_the_masters_pod_and_waited_for(
    make_job, tmp_path
) -> None:
    later = tmp_path / "later"
    job = make_job("--num_workers=1", f"--volume=host_path={later},type=Directory,mount_path=/job")
    job.start().until_said(rf"the master's pod waits: a volume cannot be mounted: .*{later}")
    job.folder.rename(later)
    job.folder.symlink_to(later)
    job.assert_right_end()
    assert job.text().count("a volume cannot be mounted") == 1


def test_a_worker_whose_container_is_not_made_is_said_to_wait_for_it(make_job, tmp_path) -> None:
    later = tmp_path / "later"
    volume = {"name": "more", "hostPath": {"path": str(later), "type": "Directory"}}
    part = {"volumes": [volume], "volumeMounts": [{"name": "more", "mountPath": "/more"}]}
    job = make_job("--num_workers=1", f"--cluster_spec_json={json.dumps({'worker_pod_spec': part})}")
    worker = job.pod("worker-0")
    command = f"kubectl describe pod {worker} -n {job.namespace.name}"
    job.start().until_said(re.escape(f"pod {worker} waits: its container is not made yet ({command})"))
    later.mkdir()
    job.assert_right_end()


def test_the_small_image_is_enough_for_a_master_whose_workers_have_the_models(
    make_job, cluster, job_image
) -> None:
    small, registry = builder.images(cluster).base, cluster.site.registry
    with_models = build_image(
        base_image=job_image,
        repository=f"{registry}/team/tiny:1",
        model_zoo=str(ZOO),
        insecure_registries=registry,
    )
    images = (f"--image_name={small}", f"--ps_image={small}", f"--worker_image={with_models}")
    job = make_job("--num_workers=2", "--model_zoo=/model_zoo", *images).start()
    job.assert_right_end()


def test_deleting_all_pods_by_label_ends_the_job_for_good(make_job) -> None:
    job = begun(make_job("--num_workers=2", "--num_epochs=3"), workers=2)
    job.namespace.kubectl("delete", "pod", "-l", "elasticdl_job_name=j")
    assert job.ends() == 1
    assert "job j was deleted" in job.text()
    job.until_gone()


def test_a_job_that_fails_says_why_and_goes_on_when_its_cause_is_cured(make_job) -> None:
    job = make_job("--num_workers=1", "--max_task_attempts=1")
    (job.folder / "pace").unlink()
    assert job.start().ends() == 1
    last = job.text().strip().splitlines()[-1]
    assert re.search(r"job j failed: records \d+-\d+ of \S+: .*No such file", last)
    assert set(job.pods()) == {"master"}
    job.pace(0)
    job.start()
    job.until_said("goes on where it was left")
    job.assert_right_end()
