"""What members hear of a master that cannot answer them."""

import asyncio
from types import SimpleNamespace

import grpc
import pytest

from elastic_runtime.errors import ElasticError
from elastic_runtime.master.desk import Desk
from elastic_runtime.master.home import Origin
from elastic_runtime.master.job import TRAINING, Job
from elastic_runtime.master.ledger import Source
from elastic_runtime.master.service import Service
from elastic_runtime.platform.overtaken import Overtaken
from elastic_runtime.rpc import channel, master_pb2, master_pb2_grpc
from elastic_runtime.spec.job import JobSpec


def a_desk(folder, problem):
    options = {"job_name": "j", "model_def": "m.py", "training_data": "d", "run_dir": str(folder)}
    job = Job(JobSpec.make(options, []), lambda row: None)
    job.begin({TRAINING: [Source("a", 40)]})
    job.begin_era(1, Origin("fresh"))

    async def durable():
        raise problem

    return Desk(job, tell=job.tell, durable=durable)


async def called(answers, call):
    """How a call of such a master ends."""
    server = channel.server_aio(token="")
    master_pb2_grpc.add_MasterServicer_to_server(Service(answers), server)
    port = channel.listen(server, "127.0.0.1", 0, token="")
    await server.start()
    try:
        async with channel.connect_aio(f"127.0.0.1:{port}", token="") as line:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(master_pb2_grpc.MasterStub(line))
            return caught.value
    finally:
        await server.stop(0)


@pytest.mark.parametrize("problem", [Overtaken("another has taken over"), ElasticError("the disk is full")])
@pytest.mark.parametrize("kind", ["lease", "report", "world", "left"])
def test_what_cannot_be_made_durable_is_not_answered_and_may_be_asked_again(tmp_path, problem, kind):
    """The member waits, or finds the next master; it is no error of its own."""
    desk = a_desk(tmp_path, problem)

    async def refuse(_):
        raise problem

    answers = SimpleNamespace(
        lease=lambda request: desk.lease(request, lives=lambda: True),
        report=lambda request: desk.report(request, accepted=lambda: None),
        world=refuse,
        left=refuse,
    )
    key = master_pb2.LeaseKey(kind=master_pb2.TRAINING, era=1)
    calls = {
        "lease": lambda master: master.Lease(master_pb2.LeaseRequest(worker="w", era=1, serial=1)),
        "report": lambda master: master.Report(
            master_pb2.ReportRequest(worker="w", key=key, finished=master_pb2.Finished())
        ),
        "world": lambda master: master.World(master_pb2.WorldRequest(member="w")),
        "left": lambda master: master.Leave(master_pb2.LeaveRequest(member="w")),
    }
    error = asyncio.run(called(answers, calls[kind]))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert str(problem) in error.details()


def test_a_defect_of_the_masters_own_is_not_taken_for_an_absence(tmp_path):
    async def broken(_):
        raise ZeroDivisionError

    error = asyncio.run(
        called(SimpleNamespace(lease=broken), lambda master: master.Lease(master_pb2.LeaseRequest()))
    )
    assert error.code() is grpc.StatusCode.UNKNOWN
