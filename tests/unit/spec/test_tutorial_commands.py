"""Every command of the tutorials is understood, and means what its tutorial says."""

import pytest
from tutorials import (
    CLOUD_HIGH,
    CLOUD_LOW,
    COMMANDS,
    DEMO_MANIFEST,
    DEVELOPER_MASTER,
    DEVELOPER_WORKER,
    LOCAL_ALLREDUCE,
    LOCAL_PS,
    ON_PREM_BUILT,
    ON_PREM_READY,
    README_MASTER,
    typed,
)

from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.job import Kind
from elastic_runtime.spec.volumes import Volume


def _with_blanks(argv):
    return [part for argument in argv for part in argument.split("=", 1)]


def _with_hyphens(argv):
    return [
        name.replace("_", "-") + equals + value for name, equals, value in (a.partition("=") for a in argv)
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_other_spellings_of_a_tutorial_command_mean_the_same(name):
    command, text = COMMANDS[name]
    parsed = parse(command, typed(text))
    assert parse(command, _with_blanks(typed(text))) == parsed
    assert parse(command, _with_hyphens(typed(text))) == parsed


@pytest.mark.parametrize("name", COMMANDS)
def test_a_tutorial_command_in_canonical_form_is_the_same_job_and_has_no_older_names(name):
    command, text = COMMANDS[name]
    spec = parse(command, typed(text)).spec
    required = ["--worker_id=1"] if command == "worker" else []
    again = parse(command, [*spec.to_args(command), *required])
    assert again.spec == spec
    assert not any("now called" in notice for notice in again.notices)


def test_the_local_ps_job():
    spec = parse("train", typed(LOCAL_PS)).spec
    assert (spec.num_workers, spec.num_ps_pods, spec.distribution_strategy) == (
        1,
        1,
        "ParameterServerStrategy",
    )
    assert (spec.records_per_task, spec.evaluation_steps, spec.num_epochs) == (128, 50, 2)
    assert spec.volumes == (Volume(host_path="/data", mount_path="/data"),)
    assert (spec.platform, spec.image_pull_policy) == ("kubernetes", "Never")


def test_the_local_allreduce_job_has_no_parameter_server():
    spec = parse("train", typed(LOCAL_ALLREDUCE)).spec
    assert (spec.num_workers, spec.num_ps_pods, spec.distribution_strategy) == (2, 0, "AllreduceStrategy")


def test_a_cloud_job_without_strategy_and_ps_count_is_sync_sgd_with_one_parameter_server():
    parsed = parse("train", typed(CLOUD_LOW))
    spec = parsed.spec
    assert (spec.distribution_strategy, spec.num_ps_pods) == ("ParameterServerStrategy", 1)
    assert (spec.grads_to_wait, spec.use_async) == (2, False)
    assert (spec.records_per_task, spec.minibatch_size) == (100, 10)
    assert (spec.training_data, spec.validation_data) == (
        "/data/mnist_nfs/mnist/train",
        "/data/mnist_nfs/mnist/test",
    )
    assert spec.worker_priority.priority_of(0, 2) == "low-priority"
    assert spec.docker_image_repository == "gcr.io/my-project"
    assert (
        "checkpoints go to /data/elasticdl/low-prio-job/checkpoints, because no --checkpoint_dir is given"
        in parsed.notices
    )
    assert [notice for notice in parsed.notices if "--training_data_dir" in notice] == [
        "--training_data_dir is now called --training_data"
    ]


def test_one_worker_may_have_to_supply_two_gradients():
    spec = parse("train", typed(CLOUD_HIGH)).spec
    assert (spec.num_workers, spec.grads_to_wait) == (1, 2)


def test_on_prem_a_builds_on_its_image_base_and_pushes():
    spec = parse("train", typed(ON_PREM_BUILT)).spec
    assert (spec.base_image, spec.image_name) == ("elasticdl:ci", "")
    assert (spec.docker_image_repository, spec.namespace) == ("reg.docker.com/user/", "kubemaker")
    assert spec.cluster_spec == "spec.py"


@pytest.mark.parametrize("command", [ON_PREM_BUILT, ON_PREM_READY])
def test_on_prem_jobs_have_no_volume_for_checkpoints_and_are_told_so(command):
    parsed = parse("train", typed(command))
    assert parsed.spec.checkpoint_steps == 0
    assert any("--checkpoint_steps=10 has no effect" in notice for notice in parsed.notices)


def test_on_prem_b_takes_its_image_base_as_it_is_and_says_so():
    parsed = parse("train", typed(ON_PREM_READY))
    assert (parsed.spec.base_image, parsed.spec.image_name) == ("", "reg.docker.com/user/elasticdl:mnist")
    assert [notice for notice in parsed.notices if "--image_base" in notice] == [
        "--image_base is taken as --image_name: /model_zoo is not here, so it is in "
        "reg.docker.com/user/elasticdl:mnist"
    ]


@pytest.mark.parametrize("text", [DEVELOPER_MASTER, README_MASTER])
def test_a_master_by_hand_launches_no_workers_and_listens_where_workers_look(text):
    parsed = parse("master", typed(text))
    spec = parsed.spec
    assert (spec.num_workers, spec.port, spec.num_ps_pods) == (0, 50001, 1)
    assert (spec.model_def, spec.kind) == ("elasticdl/python/examples/mnist_functional_api.py", Kind.TRAINING)
    assert "the job starts no workers: it waits for those started by hand" in parsed.notices


def test_a_worker_by_hand_needs_no_more_than_its_id_and_the_master():
    spec = parse("worker", typed(DEVELOPER_WORKER)).spec
    assert (spec.worker_id, spec.master_addr) == (1, "localhost:50001")
    assert parse("worker", ["--worker_id=3", "--master_addr", "@runs/a/master.addr"]).spec.worker_id == 3


def test_the_demo_manifest_gives_its_workers_what_it_says():
    spec = parse("master", typed(DEMO_MANIFEST)).spec
    assert (spec.num_workers, spec.worker_image) == (2, "elasticdl:dev")
    assert spec.worker_resource_request == "cpu=100m,memory=100Mi"
