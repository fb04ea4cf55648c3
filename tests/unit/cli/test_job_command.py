"""`elasticdl job`: what it tells of living and dead jobs, and what it ends, all real processes."""

import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from google.protobuf import json_format
from standin_master import STATUS

from elastic_runtime.cli import state
from elastic_runtime.cli.main import main
from elastic_runtime.cli.processes import hold, processes_of, wait
from elastic_runtime.cli.runs import Run
from elastic_runtime.cli.shown import merged
from elastic_runtime.platform.pods import PodSpec, Role
from elastic_runtime.platform.process import ProcessPlatform

STANDIN = str(pathlib.Path(__file__).with_name("standin_master.py"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "mnist"
    (folder / "logs").mkdir(parents=True)
    return folder


@pytest.fixture
def master(folder, request, monkeypatch):
    monkeypatch.setattr(state, "_ANSWER_SECONDS", 60.0)  # it is there, however slow
    options = getattr(request, "param", "")
    with subprocess.Popen(
        [sys.executable, STANDIN, str(folder), "--job_name=mnist", "elastic_runtime", options],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


@pytest.fixture
def tell(capfd):
    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["job", *arguments])
        out, err = capfd.readouterr()
        return end.value.code, out, err

    return run


def died(folder, status=STATUS):
    (folder / "status.json").write_text(json_format.MessageToJson(status, preserving_proto_field_name=True))


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_job_tells_the_same_from_its_master_and_from_its_files(folder, tell, is_alive, request):
    if is_alive:
        request.getfixturevalue("master")
    else:
        died(folder)
    _, out, _ = tell("status", "mnist", "--json")
    status = json.loads(out)
    assert (status["records_done"], status["version"], status["master_alive"]) == (700, 340, is_alive)
    assert status["evaluations"] == [{"version": 300, "metrics": {"accuracy": 0.974}}]

    _, out, _ = tell("pods", "mnist", "--json")
    assert json.loads(out)[1] == {
        "name": "elasticdl-mnist-worker-3",
        "role": "worker",
        "index": 1,
        "state": "running" if is_alive else "lost",
        "pid": 9,
        "started": 2.5,
        "relaunched_because": "preempted",
        "waits_for": "",
    }

    _, out, _ = tell("ledger", "mnist", "--json")
    source = {"source": "train/data-00000", "records": 1000, "done": [[0, 500], [600, 800]]}
    assert json.loads(out) == [{"epoch": 0, "records": 1000, "records_done": 700, "sources": [source]}]

    _, out, _ = tell("list", "--json")
    assert [(job["job"], job["status"]) for job in json.loads(out)] == [("mnist", "running")]


def test_what_a_pod_waits_for_is_told_where_one_waits(folder, tell):
    status = type(STATUS)()
    status.CopyFrom(STATUS)
    died(folder, status)
    assert "waits for" not in tell("pods", "mnist")[1]
    status.pods.add(name="elasticdl-mnist-worker-4", role="worker", state="pending", waits_for="no room")
    died(folder, status)
    heading, *rows = [line.split() for line in tell("pods", "mnist")[1].splitlines() if line.split()]
    assert heading[-2:] == ["waits", "for"]
    assert [row[-1] for row in rows[1:]] == ["-", "-", "room"]


def test_epochs_that_are_like_the_complete_one_are_shown_like_it(folder, tell):
    """A master tells of the newest epoch that is complete, and of those that are open."""
    part = STATUS.ledger[0].sources[0]
    whole = type(part)(source=part.source, records=1000, done=[{"start": 100, "end": 1100}])
    status = type(STATUS)(job="mnist", status="running", epoch=4)
    status.ledger.add(epoch=2, records=1000, records_done=700, sources=[part])  # taken up again
    status.ledger.add(epoch=3, records=1000, records_done=1000, sources=[whole])
    status.ledger.add(epoch=4, records=1000, records_done=0, sources=[{"source": part.source}])
    died(folder, status)
    epochs = json.loads(tell("ledger", "mnist", "--json")[1])
    assert [(epoch["epoch"], epoch["records_done"]) for epoch in epochs] == [
        (1, 1000),
        (2, 700),
        (3, 1000),
        (4, 0),
    ]
    assert epochs[0]["sources"] == epochs[2]["sources"]
    assert epochs[0]["sources"][0]["done"] == [[100, 1100]]
    assert [epoch["epoch"] for epoch in json.loads(tell("status", "mnist", "--json")[1])["ledger"]] == [
        1,
        2,
        3,
        4,
    ]


def test_epochs_without_end_are_not_counted_as_of_none(folder, tell):
    status = type(STATUS)(job="mnist", status="running", version=340, epoch=3, records_done=2700)
    died(folder, status)
    assert "epoch 3, version 340, 2 700 records, loss" in tell("status", "mnist")[1]
    assert " of 0" not in tell("list")[1]


@pytest.mark.usefixtures("master")
def test_people_see_tables(tell):
    _, out, _ = tell("status", "mnist")
    assert (
        "job mnist: running\nepoch 1 of 2, version 340, 700 of 2 000 records, 1 200 records/s, loss 0.25"
        in out
    )
    assert "accuracy" in out
    assert "elasticdl-mnist-worker-3" in out
    assert "0-500 600-800" in tell("ledger", "mnist")[1]
    assert "mnist" in tell("list")[1]


def test_a_job_whose_master_vanished_is_not_said_to_run(folder, tell):
    died(folder)
    (folder / "master.addr").write_text("127.0.0.1:9")
    _, out, _ = tell("status", "mnist")
    assert out.startswith("job mnist: without master\n")
    assert "Start the same command again to go on" in out
    assert tell("stop", "mnist")[1].startswith("job mnist is not running; `elasticdl job clean mnist` ends")


def test_a_finished_job_is_told_from_its_summary_too(folder, tell):
    summary = {"job": "mnist", "status": "succeeded", "records_done": 12, "goodput": 0.9, "machine": {}}
    (folder / "summary.json").write_text(json.dumps(summary))
    status = json.loads(tell("status", "mnist", "--json")[1])
    assert (status["status"], status["records_done"]) == ("succeeded", 12)


def test_a_figure_that_is_no_number_is_null_for_programs_and_left_out_for_people(folder, tell):
    (folder / "status.json").write_text('{"status": "failed", "loss": "NaN", "records_done": "3"}')
    status = json.loads(tell("status", "mnist", "--json")[1], parse_constant=pytest.fail)
    assert (status["loss"], status["records_done"]) == (None, 3)
    assert "loss" not in tell("status", "mnist")[1]


@pytest.mark.parametrize("torn", [b'{"job": "mni', b"\xff\xfe", b'{"version": "many"}'])
def test_a_torn_file_is_told_in_one_line(folder, tell, torn):
    (folder / "status.json").write_bytes(torn)
    code, _, err = tell("status", "mnist")
    assert code == 1
    assert "runs/mnist/status.json" in err
    assert err.count("\n") == 1
    assert json.loads(tell("list", "--json")[1])[0]["status"] == "unreadable"


@pytest.mark.parametrize("rubbish", [b"", b"nowhere", b"x:99999", b"\xff"])
def test_rubbish_where_the_master_should_be_means_no_master(folder, tell, rubbish):
    died(folder)
    for name in ("master.addr", "token", "master.lock"):
        (folder / name).write_bytes(rubbish)
    assert tell("status", "mnist")[1].startswith("job mnist: without master\n")
    assert tell("clean", "mnist")[0] == 0
    assert not folder.exists()


def test_an_unknown_job_points_to_the_nearest(folder, tell):
    assert tell("status", "mnits") == (2, "", "error: unknown job 'mnits' (did you mean 'mnist'?)\n")
    assert tell("status", "x", "--run_dir=elsewhere")[0] == 2


def test_a_job_elsewhere_is_found_by_its_run_folder(folder, tell):
    died(folder)
    moved = folder.rename(folder.parents[1] / "elsewhere")
    assert json.loads(tell("status", "mnist", f"--run-dir={moved}", "--json")[1])["version"] == 340
    assert json.loads(tell("list", f"--run_dir={moved}", "--json")[1])[0]["job"] == "mnist"


def test_logs_are_found_by_the_end_of_a_pods_name(folder, tell):
    (folder / "logs" / "elasticdl-mnist-worker-0.log").write_bytes(b"Loss = 0.5\n\xff\n")
    for name in ("worker-0", "elasticdl-mnist-worker-0"):
        assert tell("logs", "mnist", name)[1].startswith("Loss = 0.5\n")
    code, _, err = tell("logs", "mnist", "worker-1")
    assert code == 2
    assert "elasticdl-mnist-worker-0" in err


def test_following_a_log_ends_with_the_master(folder, master):
    log = folder / "logs" / "elasticdl-mnist-worker-0.log"
    log.write_text("first\n")
    command = [sys.executable, "-m", "elastic_runtime", "job", "logs", "mnist", "worker-0", "-f"]
    with subprocess.Popen(command, cwd=folder.parents[1], stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout.readline() == "first\n"
        with log.open("a") as file:
            file.write("second\n")
        assert follower.stdout.readline() == "second\n"
        master.kill()
        master.wait()
        assert follower.wait(60) == 0


def test_stop_waits_for_the_masters_end(folder, tell, master):
    code, out, _ = tell("stop", "mnist")
    assert code == 0
    assert "job mnist" in out
    assert master.wait(60) == 0
    assert tell("stop", "mnist")[1] == "job mnist is not running\n"


@pytest.mark.parametrize("master", ["--stays"], indirect=True)
def test_a_job_that_does_not_end_in_time_is_told(tell, master):
    code, _, err = tell("stop", "mnist", "--timeout=0.1")
    assert code == 1
    assert "the job has not ended within 0.1 s" in err
    assert master.poll() is None


def _start_pods(folder, *programs):
    """Pods that outlive the platform that started them."""

    async def start():
        platform = ProcessPlatform(folder, "mnist")
        pods = [
            await platform.start(
                PodSpec(
                    name=f"elasticdl-mnist-worker-{index}",
                    job="mnist",
                    role=Role.WORKER,
                    index=index,
                    command=(sys.executable, "-c", program, "--job_name=mnist"),
                )
            )
            for index, program in enumerate(programs)
        ]
        await platform.close()
        return [hold(pod.pid) for pod in pods]

    return asyncio.run(start())


OBEDIENT = "import signal; signal.pause()"
PARENT = "import signal, subprocess; subprocess.Popen(['sleep', '1000']); signal.pause()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {PARENT}"


def test_clean_ends_every_process_of_the_job_and_removes_its_folder(folder, tell):
    pods = _start_pods(folder, OBEDIENT, STUBBORN)
    child = _child_of(pods[1].pid)
    code, out, _ = tell("clean", "mnist", "--grace=0.2")
    assert code == 0
    assert "ended 3 processes: " in out
    assert wait([*pods, child], 60) == []
    assert not folder.exists()
    assert processes_of(Run("mnist", folder)) == []


def test_clean_finds_the_children_of_a_pod_that_is_gone(folder, tell):
    (pod,) = _start_pods(folder, PARENT)
    child = _child_of(pod.pid)
    signal.pidfd_send_signal(pod.file, signal.SIGKILL)
    assert wait([pod], 60) == []
    assert f"ended 1 process: {child.pid}\n" in tell("clean", "mnist", "--keep-files")[1]
    assert wait([child], 60) == []
    assert folder.exists()


def test_clean_removes_what_killed_pods_left_among_the_temporary_files_and_nothing_else(
    folder, tell, tmp_path
):
    pods = _start_pods(folder, OBEDIENT, OBEDIENT)
    first, second = sorted((folder / "pods").glob("*.json"))
    scratch = pathlib.Path(json.loads(first.read_text())["scratch"])
    (scratch / "half-written").touch()
    theirs = tmp_path / "thesis"
    theirs.mkdir()
    record = json.loads(second.read_text())
    second.write_text(json.dumps(record | {"scratch": str(theirs)}))
    for pod in pods:
        signal.pidfd_send_signal(pod.file, signal.SIGKILL)
    assert wait(pods, 60) == []
    assert tell("clean", "mnist")[0] == 0
    assert not scratch.exists()
    assert theirs.exists()
    os.rmdir(record["scratch"])  # nobody knows of it any more


def _child_of(pid):
    """The child of a process, as soon as it has one."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    while not (found := children.read_text().split()):
        os.sched_yield()
    return hold(int(found[0]))


def test_clean_refuses_while_the_master_lives_unless_forced(folder, tell, master):
    code, _, err = tell("clean", "mnist")
    assert code == 1
    assert f"the job's master is alive, process {master.pid}" in err
    assert master.poll() is None
    assert tell("clean", "mnist", "--force")[0] == 0
    assert master.wait(60) == -signal.SIGTERM
    assert not folder.exists()


def test_clean_leaves_strangers_alone(folder, tell, tmp_path):
    other = tmp_path / "other"
    (other / "runs" / "mnist" / "logs").mkdir(parents=True)
    argv = [sys.executable, "-c", OBEDIENT, "--job_name=mnist"]
    with (
        subprocess.Popen([*argv, "elastic_runtime.master"], cwd=other) as elsewhere,
        subprocess.Popen([*argv, "elastic_runtime.master", f"--run_dir={other}"]) as in_other_folder,
        subprocess.Popen(argv) as unrelated,
        subprocess.Popen(
            [sys.executable, "-c", OBEDIENT, "--job_name=mnist-2", "elastic_runtime"]
        ) as other_job,
    ):
        started = (elsewhere, in_other_folder, unrelated, other_job)
        assert "ended 0 processes\n" in tell("clean", "mnist")[1]
        assert [process.poll() for process in started] == [None] * 4
        for process in started:
            process.kill()


def test_clean_refuses_a_folder_that_no_job_wrote(tmp_path, monkeypatch, tell):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").touch()
    code, _, err = tell("clean", "mnist", f"--run_dir={tmp_path / 'home'}")
    assert code == 2
    assert "no job has written here" in err
    assert (tmp_path / "home" / "thesis.tex").exists()


@pytest.mark.parametrize(
    ("intervals", "joined"),
    [([], []), ([(5, 7), (0, 5)], [[0, 7]]), ([(0, 9), (2, 3), (10, 11)], [[0, 9], [10, 11]])],
)
def test_intervals_that_touch_are_joined(intervals, joined):
    assert merged(intervals) == joined


@pytest.mark.parametrize(
    ("verb", "option"),
    [
        ("clean", "--keep_files"),
        ("clean", "--grace=10"),
        ("clean", "--run_dir=runs/mnist"),
        ("status", "--run_dir=runs/mnist"),
        ("list", "--run_dir=runs/mnist"),
    ],
)
def test_what_means_nothing_in_a_cluster_is_refused_there(tell, verb, option):
    job = [] if verb == "list" else ["mnist"]
    code, out, err = tell(verb, *job, "--namespace=team", option)
    assert (code, out) == (2, "")
    assert f"{option.partition('=')[0]}: is about the files and processes of this machine" in err
