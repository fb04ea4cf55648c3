"""What the master makes of what its workers say."""

import asyncio
from types import SimpleNamespace

import pytest

from elastic_runtime.master import front as fronts
from elastic_runtime.master import ledger
from elastic_runtime.master.front import Front
from elastic_runtime.master.home import Origin, ServedHome
from elastic_runtime.master.job import TRAINING, Job
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.members import Members
from elastic_runtime.master.tasks import Tasks
from elastic_runtime.platform.pods import Phase, Pod, Role
from elastic_runtime.rpc import master_pb2
from elastic_runtime.spec.job import JobSpec


def a_job(folder):
    """40 records, 10 in a shard."""
    options = {"job_name": "j", "model_def": "m.py", "training_data": "d", "run_dir": str(folder)}
    job = Job(JobSpec.make(options | {"records_per_task": "10"}, []), lambda row: None)
    job.begin({TRAINING: [Source("a", 40)]})
    job.begin_era(1, Origin("fresh"))
    return job


async def at_once():
    return


def nothing(*_, **__):
    return


def a_front(job, members, durable=at_once, home=None, pods=None):
    return Front(
        job,
        course=SimpleNamespace(tell=job.tell, worker_gone=nothing),
        desk=SimpleNamespace(),
        members=members,
        versions=SimpleNamespace(home=home or SimpleNamespace(away=nothing)),
        pods=pods or SimpleNamespace(present={"w"}),
        narrator=SimpleNamespace(),
        durable=durable,
        finish=nothing,
        stop=nothing,
    )


def test_a_lease_on_its_way_to_a_worker_that_leaves_in_order_was_not_begun(tmp_path):
    job, members = a_job(tmp_path), Members()
    members.join(master_pb2.Member(role=master_pb2.ROLE_WORKER, name="w", incarnation="1"))
    job.tell(TRAINING, ledger.Ask("w", 0.0))
    goodbye = master_pb2.LeaveRequest(member="w", incarnation="1", reason="drained")
    asyncio.run(a_front(job, members).left(goodbye))
    assert (job.main.in_flight(), job.main.records_retrained) == (0, 0)
    assert not members.lives("w", "1"), "nor is it given another"


def test_a_worker_that_leaves_by_an_error_keeps_what_it_has_until_its_pod_has_ended(tmp_path):
    job, members = a_job(tmp_path), Members()
    members.join(master_pb2.Member(role=master_pb2.ROLE_WORKER, name="w", incarnation="1"))
    job.tell(TRAINING, ledger.Ask("w", 0.0))
    goodbye = master_pb2.LeaveRequest(member="w", incarnation="1", reason="error", error="no")
    asyncio.run(a_front(job, members).left(goodbye))
    assert job.main.in_flight() == 1
    job.tell(TRAINING, ledger.WorkerLost("w"))
    assert job.main.records_retrained == 10


def test_a_worker_is_told_that_nothing_is_left_once_that_is_durable(tmp_path):
    """A master killed before leaves a next one that has work for it."""
    job = a_job(tmp_path)
    for shard in range(4):
        job.tell(TRAINING, ledger.Ask("w", 0.0))
        job.tell(TRAINING, ledger.Finished("w", job.main.leases("w")[0], shard + 1, 0.0))
    assert job.main.finished

    async def told():
        asked, durable = asyncio.Event(), asyncio.Event()

        async def wait():
            asked.set()
            await durable.wait()

        front = a_front(job, Members(), wait)
        answer = asyncio.ensure_future(front.world(master_pb2.WorldRequest(member="v", wait_seconds=30)))
        async with asyncio.timeout(60):
            await asked.wait()
            assert not answer.done()
            durable.set()
            return (await answer).end

    assert asyncio.run(told())


def a_served_home(members, tasks):
    home = ServedHome(1, members=members, token="", tasks=tasks, find_checkpoint=nothing, begin_era=nothing)
    home.resume(1, Origin("fresh", holders=("1",)))
    return home


def orders_to(connection):
    """What a member is told, up to the end of its bond (None)."""
    told = []
    while not connection.orders.empty():
        order = connection.orders.get_nowait()
        told.append(order and order.WhichOneof("order"))
    return told


@pytest.mark.parametrize("pod_is_said_to_have_ended", [True, False])
def test_a_parameter_server_that_runs_on_after_it_was_replaced_is_told_to_end_whenever_it_comes(
    tmp_path, pod_is_said_to_have_ended
):
    """On a node that nobody hears of: it and its replacement would end each other's bonds for ever."""

    async def found():
        members, tasks = Members(), Tasks(nothing)
        home = a_served_home(members, tasks)
        front = a_front(a_job(tmp_path), members, home=home, pods=SimpleNamespace(present={"ps-0"}))
        old, new = (
            master_pb2.Member(role=master_pb2.ROLE_PS, name="ps-0", incarnation=number, state="ready", era=1)
            for number in "12"
        )
        first = front.joined(old)
        if pod_is_said_to_have_ended:
            members.bury("ps-0", "its pod is no more")
            home.lost("ps-0")
        second = front.joined(new)
        told = [orders_to(first)]
        again = front.joined(old)
        told += [orders_to(again), orders_to(second)]
        for connection in (first, again):
            front.parted(connection)
        await tasks.cancel()
        return told, members["ps-0"] is second, members.lives("ps-0", "2"), home._incarnations()

    told, *rest = asyncio.run(found())
    assert told[0][:2] == ["drain", None]
    assert told[1:] == [["drain", None], []]
    assert rest == [True, True, ["2"]]


@pytest.mark.parametrize(
    ("incarnation", "state", "era", "told"),
    [
        ("1", "ready", 1, ["drain", None]),
        ("2", "ready", 2, []),
        ("2", "ready", 1, []),  # it holds the model of the era before until the first worker brings another
        ("3", "fresh", 0, []),  # the next replacement
        ("3", "ready", 3, []),  # given the model by a master that was lost before it had begun the era
    ],
)
def test_a_new_master_knows_a_parameter_server_that_was_replaced_before_by_its_era(
    tmp_path, incarnation, state, era, told
):
    async def found():
        job, members, tasks = a_job(tmp_path), Members(), Tasks(nothing)
        job.begin_era(2, Origin("copy", holders=("2",)))
        front = a_front(job, members, home=a_served_home(members, tasks))
        server = master_pb2.Member(
            role=master_pb2.ROLE_PS, name="ps-0", incarnation=incarnation, state=state, era=era
        )
        orders = orders_to(front.joined(server))
        await tasks.cancel()
        return orders

    assert asyncio.run(found()) == told


def test_a_worker_whose_pod_is_no_more_gets_no_work_and_fails_no_job(tmp_path):
    job, members, outcomes = a_job(tmp_path), Members(), []
    worker = master_pb2.Member(role=master_pb2.ROLE_WORKER, name="w", incarnation="1")
    front = a_front(job, members)
    front._finish = outcomes.append
    members.join(worker)
    members.bury("w", "its pod is no more")
    assert orders_to(front.joined(worker)) == ["drain", None]
    assert not members.lives("w", "1")
    goodbye = master_pb2.LeaveRequest(member="w", incarnation="1", reason="error", error="no", fatal=True)
    asyncio.run(front.left(goodbye))
    assert outcomes == []


def test_a_worker_that_was_missed_and_has_no_pod_may_come_back():
    members = Members()
    worker = master_pb2.Member(role=master_pb2.ROLE_WORKER, name="w", incarnation="1")
    members.join(worker)
    members.forget("w")
    assert not members.is_over("1")
    members.join(worker)
    assert members.lives("w", "1")


@pytest.mark.parametrize(
    ("course", "ended"),
    [
        (("runs",), ["ps-0"]),
        (("runs", "runs"), ["ps-0"]),
        (("runs", "joins"), []),
        (("joins", "runs"), []),
        (("runs", "ends", "waits"), []),
        (("runs", "ends", "waits", "runs"), ["ps-0"]),
        (("waits",), []),
    ],
)
def test_a_parameter_server_that_runs_and_does_not_join_is_replaced(tmp_path, monkeypatch, course, ended):
    """One that hung as its master was lost would be waited for by the next for ever."""
    monkeypatch.setattr(fronts, "ABSENT_SECONDS", 0.01)
    phases = {"runs": Phase.RUNNING, "ends": Phase.ENDED, "waits": Phase.PENDING}

    async def found():
        members, tasks, ends = Members(), Tasks(nothing), []
        pods = SimpleNamespace(present={"ps-0", "worker-0"}, end=ends.append)
        front = a_front(a_job(tmp_path), members, home=a_served_home(members, tasks), pods=pods)
        front.pod_changed(Pod("worker-0", Role.WORKER, 0, Phase.RUNNING, 0.0))
        for event in course:
            if event == "joins":
                front.joined(master_pb2.Member(role=master_pb2.ROLE_PS, name="ps-0", incarnation="1"))
            else:
                front.pod_changed(Pod("ps-0", Role.PS, 0, phases[event], 0.0))
        await asyncio.sleep(0.1)
        await tasks.cancel()
        return ends

    assert asyncio.run(found()) == ended


@pytest.mark.parametrize(
    ("course", "ended"),
    [
        (("parts",), ["ps-0"]),
        (("parts", "joins"), []),
        (("parts", "is replaced"), []),
        (("is replaced", "parts"), []),
    ],
)
def test_a_silent_parameter_server_is_ended_but_not_its_replacement_that_is_still_starting(
    tmp_path, monkeypatch, course, ended
):
    """It has the name of the one before it; its image may take longer to pull than a server may be silent."""
    monkeypatch.setattr(fronts, "HUNG_SECONDS", 0.01)

    async def found():
        members, tasks, ends = Members(), Tasks(nothing), []
        home = a_served_home(members, tasks)
        front = a_front(
            a_job(tmp_path),
            members,
            home=home,
            pods=SimpleNamespace(present={"ps-0"}, end=ends.append),
        )
        server = master_pb2.Member(role=master_pb2.ROLE_PS, name="ps-0", incarnation="1")
        connection = front.joined(server)
        for event in course:
            if event == "parts":
                front.parted(connection)
            elif event == "joins":
                front.joined(server)
            else:  # the pod's end was heard
                home.lost("ps-0")
        await asyncio.sleep(0.1)
        await tasks.cancel()
        return ends

    assert asyncio.run(found()) == ended
