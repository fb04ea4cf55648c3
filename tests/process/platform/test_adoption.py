"""A master killed with -9 at any moment, and the next one: no pod twice, none lost, every end understood."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pod_world import MARK, ended, run, until, until_logged

from elastic_runtime.errors import InputError
from elastic_runtime.platform.pods import ExitCause, Phase
from elastic_runtime.platform.process import claim, launch
from elastic_runtime.platform.process.processes import gone

DRIVER = Path(__file__).with_name("driver.py")


def a_master(folder, count, *command):
    arguments = [sys.executable, str(DRIVER), str(folder), str(count), *command]
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, text=True, env=os.environ | {MARK: str(folder)}
    )


def kill(master):
    master.kill()
    master.wait()
    master.stdout.close()


def test_masters_killed_at_any_moment_start_each_pod_exactly_once(world):
    rng = random.Random(3)
    starts = world.folder / "starts"
    command = ["sh", "-c", f"echo $ELASTICDL_POD $$ >> {starts}; exec sleep 1000"]
    for _ in range(12):
        master = a_master(world.folder, 3, *command)
        assert master.stdout.readline() == "begin\n"
        time.sleep(rng.uniform(0.0, 0.06))
        kill(master)
    last = a_master(world.folder, 3, *command)
    assert last.stdout.readline() == "begin\n"
    pids = last.stdout.readline().split()[1:]
    kill(last)
    records = [json.loads((world.folder / "pods" / f"pod-{n}.json").read_text())["pid"] for n in range(3)]
    assert sorted(map(int, pids)) == sorted(records)
    until(lambda: sorted(world.processes()) == sorted(records), "launches of dead masters have given up")
    until(lambda: len(starts.read_text().splitlines()) >= 3, "all pods have said that they run")
    run(world.platform.stop_all(1))
    started = sorted(starts.read_text().splitlines())
    assert started == [f"pod-{n} {pid}" for n, pid in enumerate(pids)]


def test_a_launch_whose_master_is_gone_gives_up_and_leaves_nothing(world):
    """Else the next master would take the pod that never was for one that was lost."""
    (world.folder / "pods").mkdir()
    (scratch := world.folder / "w.files").mkdir()
    record, exit_record = world.folder / "pods" / "w.json", world.folder / "pods" / "w.exit"
    facts = json.dumps({"name": "w", "scratch": str(scratch)})
    arguments = [str(record), str(exit_record), "1", facts, "touch", str(world.folder / "ran")]
    with (world.folder / "reply").open("w") as reply:
        done = subprocess.run(
            ["sh", "-c", f'exec "$@" {launch.REPLY}>&1', "sh", sys.executable, launch.__file__, *arguments],
            check=False,
            stdout=reply,
        )
    assert done.returncode == launch.EXIT_GAVE_UP
    assert (world.folder / "reply").read_text() == "the master is gone"
    assert not (world.folder / "ran").exists()
    assert not scratch.exists()
    assert run(world.platform.list(ended=True)) == []


@pytest.mark.parametrize(
    ("last_act", "expected"),
    [
        ("0", (ExitCause.COMPLETED, 0, "")),
        ("75", (ExitCause.DRAINED, 75, "")),
        ("1 / 0", (ExitCause.ERROR, 1, "ZeroDivisionError: division by zero")),
        ("bytearray(2**60)", (ExitCause.OUT_OF_MEMORY, 71, "out of memory")),
        ("sys.exit('bad input')", (ExitCause.ERROR, 1, "bad input")),
        ("os.kill(os.getpid(), 9)", (ExitCause.PREEMPTED, None, "without an exit record")),
    ],
)
@pytest.mark.parametrize("seen", [True, False], ids=["alive when adopted", "ended while there was no master"])
def test_the_end_of_a_pod_of_an_earlier_master_is_understood(world, last_act, expected, seen):
    pid = left_by_a_master(world, f"settle(lambda: (signal.sigwait([10]), {last_act})[1])")

    async def scenario():
        await until_logged(world.platform, "pod-0", "on")
        if not seen:
            os.kill(pid, signal.SIGUSR1)
            await gone(pid)
            return await ended(world.platform, "pod-0")
        watch = await world.platform.watch()
        assert [pod.phase for pod in watch.pods] == [Phase.RUNNING]
        os.kill(pid, signal.SIGUSR1)
        return await anext(watch.changes())

    pod = run(scenario())
    cause, exit_code, words = expected
    assert (pod.pid, pod.cause, pod.exit_code) == (pid, cause, exit_code)
    assert words in pod.detail


def left_by_a_master(world, code):
    """The pid of a pod that runs this code (waiting for SIGUSR1) and whose master was killed."""
    imports = "import os, signal, sys; from elastic_runtime.platform.process.child import settle"
    code = f"{imports}; signal.pthread_sigmask(signal.SIG_BLOCK, [10]); print('on', flush=True); {code}"
    master = a_master(world.folder, 1, sys.executable, "-c", code)
    assert master.stdout.readline() == "begin\n"
    pid = int(master.stdout.readline().split()[1])
    kill(master)
    return pid


def test_an_adopted_pod_is_stopped_like_one_of_our_own(world):
    pid = left_by_a_master(world, "signal.signal(15, signal.SIG_IGN); signal.pause()")

    async def scenario():
        [pod] = (await world.platform.watch()).pods
        await world.platform.stop("pod-0", 0.1)
        return pod, await world.platform.list()

    pod, left = run(scenario())
    assert (pod.pid, pod.phase) == (pid, Phase.RUNNING)
    assert left == []


def test_what_a_dead_pod_left_running_is_cleared_away_by_the_next_master(world):
    child = "subprocess.Popen(['sleep', '1000'])"
    pid = left_by_a_master(
        world, f"import subprocess; {child}; signal.sigwait([10]); os.kill(os.getpid(), 9)"
    )

    async def scenario():
        await until_logged(world.platform, "pod-0", "on")
        os.kill(pid, signal.SIGUSR1)
        await gone(pid)
        left_over = len(world.processes())
        await ended(world.platform, "pod-0")
        return left_over, len(world.processes())

    assert run(scenario()) == (1, 0)


def test_the_temporary_files_of_a_dead_pod_go_also_if_its_end_is_on_record(world):
    scratch = world.folder / "w.files"
    scratch.mkdir()
    facts = {"name": "w", "role": "worker", "index": 0, "pid": 1 << 30, "started": 0.0, "log_from": 0}
    end = {"pid": 1 << 30, "cause": "completed", "exit_code": 0, "detail": ""}
    (world.folder / "pods").mkdir()
    (world.folder / "pods" / "w.json").write_text(
        json.dumps(facts | {"relaunched_because": "", "scratch": str(scratch)})
    )
    (world.folder / "pods" / "w.exit").write_text(json.dumps(end))
    assert run(ended(world.platform, "w")).cause is ExitCause.COMPLETED
    assert not scratch.exists()


def test_a_stranger_that_has_a_dead_pods_number_is_left_alone(world):
    stranger = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    record = {"name": "w", "role": "worker", "index": 0, "pid": stranger.pid, "started": 0.0}
    (world.folder / "pods").mkdir()
    (world.folder / "pods" / "w.json").write_text(
        json.dumps(record | {"relaunched_because": "", "log_from": 0, "job": "j"})
    )
    try:
        pod = run(ended(world.platform, "w"))
        run(world.platform.stop_all(0))
        assert (pod.cause, stranger.poll()) == (ExitCause.PREEMPTED, None)
    finally:
        stranger.kill()
        stranger.wait()


def test_a_half_written_record_is_no_pod(world):
    (world.folder / "pods").mkdir()
    (world.folder / "pods" / "w.json").write_text('{"name": "w", "ro')

    async def scenario():
        assert await world.platform.list() == []
        pod = await world.platform.start(world.spec("w", "sleep", "1000"))
        await world.platform.stop_all(1)
        return pod.phase

    assert run(scenario()) is Phase.RUNNING


def test_a_second_master_is_refused_and_told_who_the_first_is(world):
    master = a_master(world.folder, 1, "sleep", "1000")
    master.stdout.readline()
    with pytest.raises(InputError, match=f"job 'j' is run by process {master.pid} "):
        claim(world.folder, "j")
    master.stdout.readline()
    kill(master)
    with claim(world.folder, "j"):
        run(world.platform.stop_all(1))


def test_a_released_claim_can_be_had_again(tmp_path):
    with claim(tmp_path / "new", "j"), pytest.raises(InputError, match=f"process {os.getpid()} "):
        claim(tmp_path / "new", "j")
    claim(tmp_path / "new", "j").release()
