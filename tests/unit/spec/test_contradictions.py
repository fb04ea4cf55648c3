"""What options mean together: refused, filled in, or said."""

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.platform.kubernetes.objects import PORTS
from elastic_runtime.platform.pods import Role
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.job import JobSpec, Kind

JOB = ["--job_name=j", "--model_def=m"]
TRAIN = [*JOB, "--training_data=d"]


def train(*arguments):
    return parse("train", [*TRAIN, *arguments])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--min_workers=3"], "--min_workers=3 is more than --num_workers=2 (min_workers <= num_workers)"),
        (
            ["--records_per_task=100", "--num_minibatches_per_task=8", "--minibatch_size=10"],
            "--records_per_task=100 contradicts --num_minibatches_per_task=8 with --minibatch_size=10 "
            "(leave one of them out)",
        ),
        (
            ["--num_ps_pods=0"],
            "ParameterServerStrategy needs a parameter server, got --num_ps_pods=0 "
            "(leave it out, or give --distribution_strategy=AllreduceStrategy or Local)",
        ),
        (
            ["--worker_resource_request=cpu=2", "--worker_resource_limit=cpu=1"],
            "--worker_resource_limit: cpu is requested as 2 but limited to 1 "
            "(a limit is at least the request)",
        ),
    ],
)
def test_contradictions_are_refused(arguments, told):
    with pytest.raises(InputError) as error:
        train(*arguments)
    assert str(error.value) == told


def test_prediction_excludes_training_and_evaluation():
    for other in ("training_data", "validation_data"):
        with pytest.raises(InputError, match=f"--prediction_data excludes --{other}"):
            parse("master", [*JOB, "--prediction_data=p", f"--{other}=d", "--checkpoint_dir_for_init=c"])


@pytest.mark.parametrize("data", ["validation_data", "prediction_data"])
def test_a_job_that_does_not_train_needs_a_trained_model(data):
    with pytest.raises(InputError, match="--checkpoint_dir_for_init"):
        parse("master", [*JOB, f"--{data}=d"])


def test_the_kind_of_a_job_follows_from_its_data():
    trained = "--checkpoint_dir_for_init=c"
    assert train("--validation_data=v").spec.kind is Kind.TRAINING
    assert parse("evaluate", [*JOB, "--validation_data=v", trained]).spec.kind is Kind.EVALUATION
    assert parse("predict", [*JOB, "--prediction_data=p", trained]).spec.kind is Kind.PREDICTION


def test_a_missing_ps_count_never_switches_the_strategy():
    assert train().spec.num_ps_pods == 1
    assert train("--distribution_strategy=Local").spec.num_ps_pods == 0
    parsed = train("--distribution_strategy=AllreduceStrategy", "--num_ps_pods=2")
    assert parsed.spec.num_ps_pods == 0
    assert "--num_ps_pods=2 has no effect with AllreduceStrategy" in parsed.notices


@pytest.mark.parametrize("policy", ["OnFailure", "always"])
def test_containers_that_would_be_started_again_are_not_and_this_is_said(policy):
    parsed = train("--image_name=i", f"--restart_policy={policy}")
    assert parsed.spec.restart_policy == "Never"
    (told,) = [notice for notice in parsed.notices if "restart_policy" in notice]
    assert told.startswith(f"--restart_policy={policy[0].upper()}{policy[1:]} is taken as Never: ")
    assert not [notice for notice in train("--image_name=i").notices if "restart_policy" in notice]


def test_the_strategy_local_runs_one_worker_and_says_so_when_more_were_asked_for():
    quiet, asked = (
        train("--distribution_strategy=Local"),
        train("--distribution_strategy=Local", "--num_workers=4"),
    )
    assert quiet.spec.num_workers == asked.spec.num_workers == 1
    told = "--num_workers=4: the strategy Local runs one worker"
    assert told in asked.notices
    assert not [notice for notice in quiet.notices if "num_workers" in notice]


def test_async_counts_single_gradients_and_sync_pulls_every_step():
    in_async, in_sync = train("--use_async", "--grads_to_wait=4"), train("--get_model_steps=3")
    assert in_async.spec.grads_to_wait == 1
    assert "--grads_to_wait=4 is taken as 1, because of --use_async" in in_async.notices
    assert in_sync.spec.get_model_steps == 1
    assert "--get_model_steps=3 is taken as 1: only --use_async allows more" in in_sync.notices


def test_validation_data_alone_means_one_evaluation_at_the_end():
    told = "validation data without --evaluation_steps: there will be one evaluation, at the end"
    assert told in train("--validation_data=v").notices
    assert told not in train("--validation_data=v", "--evaluation_steps=5").notices
    assert told not in train("--validation_data=v", "--evaluation_throttle_secs=5").notices


def test_records_per_task_need_not_divide_evenly():
    spec = train("--records_per_task=95", "--minibatch_size=10", "--num_minibatches_per_task=10").spec
    assert (spec.records_per_task, spec.num_minibatches_per_task) == (95, 10)
    assert train().spec.records_per_task == 512


def test_where_a_job_runs_follows_from_an_image_and_is_said():
    here, there = train(), train("--image_name=i")
    assert (here.spec.platform, here.spec.orphan_timeout) == ("process", 30)
    assert (there.spec.platform, there.spec.orphan_timeout) == ("kubernetes", 300)
    assert "the job runs as processes on this machine, because no image is named" in here.notices
    assert "the job runs on Kubernetes, because of --image_name" in there.notices
    assert train("--image_name=i", "--platform=process").spec.platform == "process"


def test_checkpoints_have_a_stated_folder():
    parsed = train("--checkpoint_steps=2", "--run_dir=/tmp/x/")
    assert parsed.spec.checkpoint_dir == "/tmp/x/checkpoints"
    assert "checkpoints go to /tmp/x/checkpoints, because no --checkpoint_dir is given" in parsed.notices
    assert train("--checkpoint_dir=c").spec.checkpoint_dir == "c"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--volume=host_path=/a,mount_path=/a", "--namespace=n"],
            "--namespace, --volume have no effect on this machine",
        ),
        (["--lr_scaling=linear"], "--lr_scaling has no effect with ParameterServerStrategy"),
        (["--lr_staleness_modulation"], "--lr_staleness_modulation has no effect without --use_async"),
        (
            ["--use_async", "--sync_version_tolerance=2"],
            "--sync_version_tolerance has no effect with --use_async",
        ),
        (["--evaluation_steps=5"], "--evaluation_steps has no effect without --validation_data"),
        (
            ["--evaluation_start_delay_secs=5", "--validation_data=v"],
            "--evaluation_start_delay_secs has no effect without --evaluation_throttle_secs",
        ),
        (
            ["--distribution_strategy=Local", "--grads_to_wait=2"],
            "--grads_to_wait has no effect with Local",
        ),
    ],
)
def test_options_without_effect_are_said(arguments, told):
    notices = train(*arguments).notices
    assert told in notices
    assert told not in train().notices


@pytest.mark.parametrize("command", ["train", "master"])
def test_on_kubernetes_the_master_has_one_port_and_another_is_said_to_have_no_effect(command):
    fixed = PORTS[Role.MASTER]
    there = [*TRAIN, "--image_name=i"]
    parsed = parse(command, [*there, "--port=6000"])
    told = f"--port=6000 has no effect on Kubernetes: the master listens on {fixed}"
    assert (told in parsed.notices, parsed.spec.port) == (True, fixed)
    for quiet in ([*there, f"--port={fixed}"], there, [*TRAIN, "--port=6000"]):
        assert "--port" not in " ".join(parse(command, quiet).notices)
    assert parse(command, [*TRAIN, "--port=6000"]).spec.port == 6000


def test_a_package_index_for_an_image_that_is_not_built_is_said_to_have_no_effect():
    told = "--extra_pypi_index has no effect without --base_image or --docker_image_repository"
    index = "--extra_pypi_index=https://pypi.example"
    for there in ("--image_name=i", "--worker_image=i"):
        assert f"{told}: no image is built" in train(there, index).notices
    for built in ("--base_image=i", "--docker_image_repository=registry/me"):
        assert told not in " ".join(train(built, index).notices)


def test_a_spec_made_in_python_is_settled_too():
    spec = JobSpec(job_name="j", training_data="d", use_async=True, grads_to_wait=3)
    assert (spec.grads_to_wait, spec.num_ps_pods, spec.run_dir) == (1, 1, "runs/j")
    with pytest.raises(InputError):
        JobSpec(min_workers=3)


def test_a_child_does_not_say_again_what_its_master_has_said():
    assert parse("ps", ["--ps_id=0", "--master_addr=h:1", "--evaluation_steps=5"]).notices == ()


def test_a_step_waits_for_every_worker_unless_told_otherwise():
    assert train("--num_workers=3").spec.grads_to_wait == 3
    assert train("--num_workers=3", "--grads_to_wait=1").spec.grads_to_wait == 1
    assert train("--num_workers=3", "--use_async").spec.grads_to_wait == 1


@pytest.mark.parametrize("option", ["--output=/models/mnist", "--checkpoint_dir=/models/c"])
def test_in_a_cluster_what_outlives_pods_has_to_be_on_a_volume(option):
    command = [*TRAIN, "--image_name=elasticdl:x", "--checkpoint_steps=5", option]
    with pytest.raises(InputError, match="on no volume"):
        parse("train", command)
    for place in ("claim_name=c,mount_path=/models", "host_path=/h,mount_path=/models/"):
        assert parse("train", [*command, f"--volume={place}"])
    with pytest.raises(InputError, match="on no volume"):
        parse("train", [*command, "--volume=claim_name=c,mount_path=/model"])
    assert parse("train", [*TRAIN, option])
    assert parse("train", [*command, "--cluster_spec=spec.py"])
