"""A process that is the master of a run folder: it claims it, answers Status, ends on Stop."""

import pathlib
import signal
import sys
import threading

from elastic_runtime.platform.process.claim import claim
from elastic_runtime.rpc import channel, master_pb2, master_pb2_grpc

STATUS = master_pb2.StatusReply(
    job="mnist",
    status="running",
    version=340,
    epoch=1,
    epochs=2,
    records_done=700,
    records_total=2000,
    records_retrained=30,
    loss=0.25,
    records_per_second=1200,
    pods=[
        master_pb2.PodStatus(name="elasticdl-mnist-ps-0", role="ps", state="running", pid=7, started=1.5),
        master_pb2.PodStatus(
            name="elasticdl-mnist-worker-3",
            role="worker",
            index=1,
            state="running",
            pid=9,
            started=2.5,
            relaunched_because="preempted",
        ),
    ],
    ledger=[
        master_pb2.EpochLedger(
            epoch=0,
            records=1000,
            records_done=700,
            sources=[
                master_pb2.SourceLedger(
                    source="train/data-00000",
                    records=1000,
                    done=[
                        master_pb2.Interval(start=600, end=800),
                        master_pb2.Interval(start=0, end=300),
                        master_pb2.Interval(start=300, end=500),
                    ],
                )
            ],
        )
    ],
    evaluations=[master_pb2.EvaluationResult(version=300, metrics={"accuracy": 0.974})],
)


class Answers(master_pb2_grpc.MasterServicer):
    """Tells `STATUS` and remembers to stop."""

    def __init__(self):
        self.stopped = threading.Event()

    def Status(self, request, context):
        return STATUS

    def Stop(self, request, context):
        self.stopped.set()
        return master_pb2.Empty()


def main(folder):
    answers, token = Answers(), "secret"
    with claim(folder, "mnist"):
        server = channel.server(threads=2, token=token)
        master_pb2_grpc.add_MasterServicer_to_server(answers, server)
        port = channel.listen(server, "127.0.0.1", 0, token=token)
        server.start()
        (folder / "token").write_text(token)
        (folder / "master.addr").write_text(f"127.0.0.1:{port}")
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        answers.stopped.wait()
        if "--stays" in sys.argv:
            signal.pause()
        server.stop(1.0).wait()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
