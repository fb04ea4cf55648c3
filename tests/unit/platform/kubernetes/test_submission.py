"""What whoever follows a job makes of a master that is lost or deleted, and of answers that were lost."""

from __future__ import annotations

import functools
from datetime import timedelta

import pytest
from kubernetes import client

from elastic_runtime.errors import ElasticError, InputError
from elastic_runtime.platform.kubernetes import making, patience, state, submission
from elastic_runtime.platform.kubernetes.belongings import PLACEHOLDER, new_token, own_service
from elastic_runtime.platform.kubernetes.errors import AlreadyThere, Forbidden
from elastic_runtime.platform.kubernetes.objects import Blueprint, command_of
from elastic_runtime.platform.kubernetes.submission import Submission, by_hand
from elastic_runtime.platform.pods import BEGIN_ANEW, Role
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.job import JobSpec
from tests.unit.platform.kubernetes.plans import ANCHOR, TUTORIAL, child, job, plan, variables
from tests.unit.platform.kubernetes.small_api import SmallApi, ends, is_deleted, is_on_a_node, runs

MASTER = "elasticdl-j-master"


@pytest.fixture
def api() -> SmallApi:
    return SmallApi()


@pytest.fixture
def said() -> list[str]:
    return []


def following(api: SmallApi, said: list[str]) -> int:
    job = Submission(api, plan())
    assert job.submit()
    return job.follow(said.append)


def masters(*lives):
    """What becomes of one master after the other."""
    coming = iter(lives)

    def begins(pod):
        if pod.metadata.name == MASTER:
            next(coming)(pod)

    return begins


def on_a_node_that_is_lost(pod):
    """The scheduler did not know; the node never says a word."""
    pod.spec.node_name = "lost"


def succeeds(pod):
    ends(pod, 0)


def fails(pod):
    ends(pod, 1)


def deleted(pod):
    is_deleted(pod)
    ends(pod, 143)


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(patience, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(submission, "DELETING_SECONDS", 0.05)


@pytest.mark.usefixtures("soon")
def test_a_master_given_to_a_node_that_says_nothing_of_it_is_replaced(api, said):
    api.begins = masters(on_a_node_that_is_lost, on_a_node_that_is_lost, succeeds)
    assert following(api, said) == 0
    lost = (
        "the master is lost (its node is lost: lost has said nothing of it for 0.05 s): another one goes on"
    )
    assert [line for line in said if line != "the master's pod is being started"] == [lost, lost]


@pytest.mark.usefixtures("soon")
def test_whoever_does_not_follow_leaves_when_a_master_runs_that_its_node_knows(api, said):
    api.begins = masters(on_a_node_that_is_lost, runs)
    job = Submission(api, plan())
    assert job.submit()
    job.await_running(said.append)
    assert state.phase(api.pods[MASTER]) == "running"
    assert len([line for line in said if "another one goes on" in line]) == 1


def others(api, *names):
    """Workers that live."""
    found = [plan().pod(child(index=number)) for number in range(len(names))]
    for pod, name in zip(found, names, strict=True):
        pod.metadata.name = name
        runs(api.create_pod(pod))
    return found


def deletion(pod):
    is_deleted(pod)
    return "MODIFIED", pod


def test_pods_that_are_deleted_one_after_the_other_are_a_job_that_is_deleted(api, said, monkeypatch):
    """The master has ended before `kubectl delete pod -l` gets to the last of them."""
    monkeypatch.setattr(submission, "DELETING_SECONDS", 60.0)  # each comes in time
    first, *rest = others(api, "a", "b", "c")
    is_deleted(first)
    api.begins = masters(deleted)
    api.happens = [functools.partial(deletion, pod) for pod in rest]
    assert following(api, said) == 1
    assert said[-1] == "job j was deleted"


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("leaving", [0, 1])
def test_a_master_that_is_deleted_while_others_stay_is_replaced(api, said, leaving):
    for pod in others(api, "a", "b")[:leaving]:
        is_deleted(pod)
    api.begins = masters(deleted, succeeds)
    assert following(api, said) == 0
    assert "the master is lost (deleted): another one goes on" in said


@pytest.mark.parametrize("output", ["", "s3://models/m"])
def test_a_job_that_has_succeeded_is_not_trained_again_because_its_masters_exit_code_was_lost(
    api, said, output
):
    def is_over(pod):
        api.delete_config_map("elasticdl-j")
        ends(pod, 137)

    api.begins = masters(is_over)
    job = Submission(api, plan(*([f"--output={output}"] if output else [])))
    assert job.submit()
    made = api.made
    with pytest.raises(ElasticError, match="the job has succeeded, or was deleted") as end:
        job.follow(said.append)
    assert api.made == made
    assert output in end.value.remedy
    assert not any("another one goes on" in line for line in said)


@pytest.mark.usefixtures("soon")
def test_a_job_that_has_succeeded_is_told_from_other_work_of_its_name(api, said):
    options = ("--model_params=units=7;name='$x'", "--num_workers=3")
    api.begins = masters(succeeds, succeeds)
    first = Submission(api, plan(*options))
    assert first.submit()
    assert first.follow(said.append) == 0
    api.delete_config_map("elasticdl-j")
    assert not Submission(api, plan(*options, "--num_workers=4")).submit()
    with pytest.raises(InputError, match="--num_epochs=1 became 2"):
        Submission(api, plan(*options, "--num_epochs=2")).submit()
    assert Submission(api, plan("--num_epochs=2"), restart=True).submit()


MISSING = 'MountVolume.SetUp failed for volume "volume-0" : hostPath type check failed: /data is no directory'


def event(pod, reason, message, *, kind="Warning", seconds=0):
    """What a node tells of a pod, so long after it was first told."""
    about = client.V1ObjectReference(uid=pod.metadata.uid)
    last = pod.metadata.creation_timestamp + timedelta(seconds=seconds)
    made = client.V1ObjectMeta(creation_timestamp=pod.metadata.creation_timestamp)
    return client.CoreV1Event(
        involved_object=about, metadata=made, reason=reason, message=message, type=kind, last_timestamp=last
    )


def told(api, *events):
    """At the next look at the pod its node has told this, as the newest."""

    def happens():
        pod = api.pods[MASTER]
        api.events = [event(pod, *words, seconds=number) for number, words in enumerate(events)]
        return "MODIFIED", pod

    return happens


def begins_at_last(api):
    def happens():
        runs(api.pods[MASTER])
        return "MODIFIED", api.pods[MASTER]

    return happens


def test_what_a_node_does_with_the_masters_pod_meanwhile_is_said_once(api, said, monkeypatch):
    monkeypatch.setattr(making, "SLOW_SECONDS", 0.0)
    api.begins = is_on_a_node
    sandbox = "failed to set up the network of {}: away"
    api.happens = [
        told(api, ("Pulling", "Pulling image")),
        told(api, ("FailedMount", MISSING)),
        told(api, ("FailedMount", MISSING), ("Pulling", "Pulling image")),
        told(api, ("FailedCreatePodSandBox", sandbox.format("4fe2a9c01b"))),
        told(api, ("FailedCreatePodSandBox", sandbox.format("99ab71d0ee"))),
        begins_at_last(api),
    ]
    job = Submission(api, plan())
    assert job.submit()
    job.await_running(said.append)
    assert said == [
        f"the master's pod waits: {each}"
        for each in (
            f"its container is not made yet (kubectl describe pod {MASTER} -n default)",
            "its node pulls the image registry/m:1",
            f"a volume cannot be mounted: {MISSING}",
            f"its node cannot make room for it: {sandbox.format('4fe2a9c01b')}",
        )
    ]


def test_what_was_told_of_an_earlier_master_is_not_said_of_the_next(api, said, monkeypatch):
    monkeypatch.setattr(making, "SLOW_SECONDS", 0.0)
    api.begins = is_on_a_node
    earlier = api.create_pod(plan().master_pod(["python"]))
    api.events = [event(earlier, "FailedMount", MISSING)]
    del api.pods[MASTER]
    api.happens = [begins_at_last(api)]
    job = Submission(api, plan())
    assert job.submit()
    job.await_running(said.append)
    assert not any("mounted" in line for line in said)


def test_who_may_not_read_events_hears_what_would_tell(api, said, monkeypatch):
    def forbidden(_):
        raise Forbidden("events is forbidden")

    monkeypatch.setattr(making, "SLOW_SECONDS", 0.0)
    api.begins, api.pod_events, api.happens = is_on_a_node, forbidden, [begins_at_last(api)]
    job = Submission(api, plan())
    assert job.submit()
    job.await_running(said.append)
    (line,) = said
    assert line.endswith(f"its container is not made yet (kubectl describe pod {MASTER} -n default)")


def test_a_master_whose_container_is_made_in_time_is_waited_for_without_a_word(api, said):
    api.begins, api.happens = is_on_a_node, [begins_at_last(api)]
    job = Submission(api, plan())
    assert job.submit()
    job.await_running(said.append)
    assert said == []


def test_the_masters_of_a_job_that_begins_anew_bear_one_wish_and_others_none(api, said):
    wishes = []

    def begins(pod):
        wishes.append(variables(pod).get(BEGIN_ANEW))
        ends(pod, 3 if len(wishes) % 2 else 0)

    api.begins = begins
    for _ in range(2):
        job = Submission(api, plan(), restart=True)
        assert job.submit()
        assert job.follow(said.append) == 0
    assert wishes[0] == wishes[1] != wishes[2] == wishes[3]
    assert all(wishes)
    assert Submission(api, plan()).submit()
    assert wishes[4] is None


def test_a_master_that_another_follower_has_put_in_the_lost_ones_place_is_left_alone(api, said):
    others(api, "a")
    api.begins = masters(runs, succeeds)
    job = Submission(api, plan())
    assert job.submit()

    def replaced():
        lost = api.pods.pop(MASTER)
        deletion(lost)
        ends(lost, 143)
        Submission(api, plan()).start_master()
        return "MODIFIED", lost

    made, api.happens = api.made, [replaced]
    assert job.follow(said.append) == 0
    assert api.made == made + 1


class Strict(SmallApi):
    """It makes no pod."""

    def create_pod(self, pod):
        raise Forbidden(f"{pod.metadata.name} is forbidden: no PriorityClass with name urgent was found")


def test_of_a_job_whose_master_is_refused_nothing_stays():
    api = Strict()
    with pytest.raises(Forbidden, match="no PriorityClass"):
        Submission(api, plan()).submit()
    assert api.made == 3
    assert api.others == {}


def test_a_job_that_was_there_before_outlives_the_refusal_of_its_next_master():
    api = Strict()
    api.create_config_map(plan().anchor())
    with pytest.raises(Forbidden, match="no PriorityClass"):
        Submission(api, plan()).submit()
    assert len(api.others) == 3


def spec_file(folder, tolerated):
    """A cluster spec that a user corrects between two times of the command."""
    (folder / "spec.py").write_text(TUTORIAL.replace("mycluster.com/app-pool", tolerated))
    return f"--cluster_spec={folder / 'spec.py'}"


def begun(api, *options):
    """A job whose master has failed."""
    api.begins = masters(fails, runs)
    assert Submission(api, Blueprint.of(job(*options))).submit()


@pytest.mark.parametrize("at_first", ["another one", "none"])
def test_workers_of_a_job_that_goes_on_are_made_by_the_cluster_spec_as_it_is_by_now(api, tmp_path, at_first):
    begun(api, *([spec_file(tmp_path, "misspelt")] if at_first == "another one" else []))
    corrected = spec_file(tmp_path, "right")
    assert Submission(api, Blueprint.of(job(corrected))).submit()
    (tmp_path / "spec.py").unlink()  # in the master's image there is none
    command = command_of(api.pods[MASTER])[3:]
    masters_own = Blueprint.of(parse("master", command).spec, api.get_config_map("elasticdl-j"))
    assert [each.key for each in masters_own.pod(child()).spec.tolerations] == ["right"]


def test_who_asks_for_a_job_that_went_on_elsewhere_finds_the_place(api, tmp_path):
    begun(api, spec_file(tmp_path, "a"))
    assert Submission(api, Blueprint.of(job("--run_dir=/elsewhere"))).submit()
    anchor = api.get_config_map("elasticdl-j")
    assert JobSpec.from_json(anchor.data["job.json"]).run_dir == "/elsewhere"
    assert "cluster_spec.py" not in anchor.data


ON_A_CLAIM = ("--volume=claim_name=c,mount_path=/data", "--run_dir=/data/run")


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--run_dir=/data/run",),
        (ON_A_CLAIM[0], "--run_dir=/data/other"),
        ("--volume=claim_name=d,mount_path=/data", ON_A_CLAIM[1]),
    ],
    ids=["no volume", "not mounted", "other folder", "other claim"],
)
def test_a_journal_that_would_not_be_found_is_not_begun_anew(api, options):
    begun(api, *ON_A_CLAIM)
    noted = {"journal.volume": "claim c: run"}
    api.patch_config_map("elasticdl-j", {"data": noted})
    with pytest.raises(InputError, match="is on a volume, claim c: run, and would not be found") as refused:
        Submission(api, plan(*options)).submit()
    assert "give --run_dir and --volume as before, or begin anew" in refused.value.remedy
    assert state.phase(api.pods[MASTER]) == "ended"


def test_the_same_place_by_another_mount_path_is_the_same_journal(api):
    begun(api, *ON_A_CLAIM)
    api.patch_config_map("elasticdl-j", {"data": {"journal.volume": "claim c: run"}})
    assert Submission(api, plan("--volume=claim_name=c,mount_path=/b", "--run_dir=/b/run")).submit()


@pytest.mark.parametrize(
    ("before", "options", "checkpoints"),
    [
        (ON_A_CLAIM[:1], (), "/data/elasticdl/j/checkpoints"),
        (ON_A_CLAIM[:1], ("--checkpoint_dir=/data/new",), "/data/new"),
        (ON_A_CLAIM[:1], ("--volume=claim_name=d,mount_path=/data",), "/data/run/checkpoints"),
        ((), (), "/data/run/checkpoints"),
    ],
    ids=["as before", "as said", "another volume", "there were none"],
)
def test_checkpoints_stay_where_they_are_when_the_run_folder_moves(api, before, options, checkpoints):
    begun(api, *before)
    assert Submission(api, plan(*ON_A_CLAIM, *options)).submit()
    spec = parse("master", command_of(api.pods[MASTER])[3:]).spec
    assert (spec.run_dir, spec.checkpoint_dir) == ("/data/run", checkpoints)


def test_a_volume_on_which_no_master_has_begun_a_journal_may_be_corrected(api):
    begun(api, *ON_A_CLAIM)
    assert Submission(api, plan("--volume=claim_name=right,mount_path=/data", ON_A_CLAIM[1])).submit()


def test_a_master_that_dies_again_and_again_ends_with_what_removes_it(api, said):
    api.begins = lambda pod: ends(pod, 3)
    with pytest.raises(ElasticError) as end:
        following(api, said)
    assert "the master dies again and again" in end.value.what
    assert "`elasticdl job clean j --namespace=" in end.value.remedy


class Forgetful(SmallApi):
    """It loses its first answer of each kind; asked again, it knows the thing."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: set[str] = set()

    def create_pod(self, pod):
        return self._lose("pod", super().create_pod(pod))

    def _create(self, made):
        return self._lose(made.kind, super()._create(made))

    def _lose(self, kind, made):
        if kind in self.lost:
            return made
        self.lost.add(kind)
        raise AlreadyThere("already there")


def test_an_answer_that_was_lost_costs_nothing(said):
    api = Forgetful()
    api.begins = masters(succeeds)
    assert following(api, said) == 0
    assert api.lost == {"ConfigMap", "Secret", "Service", "pod"}


def test_a_secret_from_a_file_gets_a_token_that_is_in_no_file(api):
    _, secret, *_ = by_hand(plan())
    api.create_secret(secret)
    token = new_token(api, plan(), ANCHOR)
    found = api.get_secret("elasticdl-j")
    assert (found.string_data, found.immutable) == ({"token": token}, True)
    assert token != PLACEHOLDER
    assert [owner.uid for owner in found.metadata.owner_references] == [ANCHOR.uid]


def test_a_service_from_a_file_becomes_the_jobs_own_and_stays_that_one(api):
    api.create_service(plan().master_service())
    uids = []
    for _ in range(2):
        own_service(api, plan().master_service(ANCHOR))
        found = api.get_service(MASTER)
        assert [owner.uid for owner in found.metadata.owner_references] == [ANCHOR.uid]
        uids.append(found.metadata.uid)
    assert uids == ["2", "2"]


def test_all_that_is_applied_belongs_to_nobody_yet(api):
    made = by_hand(plan("--num_ps_pods=2"))
    assert [each.metadata.owner_references for each in made] == [None] * 6
    assert made[-1].metadata.labels["elasticdl-replica-type"] == Role.MASTER
