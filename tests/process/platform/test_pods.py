"""Pods as processes: how they start, write, end and are stopped."""

import asyncio
import json
import os
import signal
import sys
import time

import pytest
from pod_world import ended, run, until_logged

from elastic_runtime.errors import InputError
from elastic_runtime.platform.pods import ExitCause, Phase
from elastic_runtime.platform.process.processes import gone

SLEEP = ("sleep", "1000")
STUBBORN = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); signal.pause()"
)


def test_a_pod_has_its_own_session_its_log_and_an_environment_of_its_own(world, monkeypatch):
    monkeypatch.setenv("A_SECRET_OF_THE_MASTER", "x")
    code = (
        "import os, sys; print(os.getsid(0) == os.getpid(), *sorted(os.environ), flush=True);"
        "print('err', file=sys.stderr)"
    )

    async def scenario():
        await world.platform.start(world.python("w", code, GIVEN="1"))
        return await ended(world.platform, "w")

    assert run(scenario()).cause is ExitCause.COMPLETED
    first, second = world.log("w").splitlines()
    assert first.startswith("True ")
    assert {"ELASTICDL_POD", "GIVEN", "PATH"} <= set(first.split())
    assert "A_SECRET_OF_THE_MASTER" not in first
    assert second == "err"


def test_a_pod_inherits_no_open_file_of_the_master(world, tmp_path):
    async def scenario():
        with (tmp_path / "open").open("w") as file:
            os.set_inheritable(file.fileno(), True)
            await world.platform.start(world.spec("w", "ls", "-l", "/proc/self/fd"))
            await ended(world.platform, "w")

    run(scenario())
    assert str(tmp_path / "open") not in world.log("w")


def test_starting_a_pod_again_gives_the_running_one(world):
    async def scenario():
        pods = await asyncio.gather(*(world.platform.start(world.spec("w", *SLEEP)) for _ in range(5)))
        again = await world.platform.start(world.spec("w", "false"))
        counted = len(world.processes())
        await world.platform.stop_all(1)
        return pods, again, counted

    pods, again, counted = run(scenario())
    assert {pod.pid for pod in pods} == {again.pid}
    assert counted == 1


def test_a_name_can_be_used_again_once_its_pod_has_ended(world):
    async def scenario():
        first = await world.platform.start(world.spec("ps", *SLEEP))
        os.kill(first.pid, signal.SIGKILL)
        await gone(first.pid)
        second = await world.platform.start(world.spec("ps", *SLEEP))
        [listed] = await world.platform.list()
        await world.platform.stop_all(1)
        return second, listed

    second, listed = run(scenario())
    assert listed == second


def test_the_record_tells_what_scripts_want_to_know(world):
    async def scenario():
        pod = await world.platform.start(world.spec("w", *SLEEP, index=3))
        record = json.loads((world.folder / "pods" / "w.json").read_text())
        await world.platform.stop_all(1)
        return pod, record

    pod, record = run(scenario())
    facts = {"name": "w", "role": "worker", "index": 3, "pid": pod.pid, "relaunched_because": "preempted"}
    assert facts.items() <= record.items()
    assert abs(record["started"] - time.time()) < 60


@pytest.mark.parametrize(
    ("code", "cause", "exit_code", "words"),
    [
        ("", ExitCause.COMPLETED, 0, ""),
        ("import sys; sys.exit(75)", ExitCause.DRAINED, 75, ""),
        ("import sys; sys.exit(3)", ExitCause.ERROR, 3, "exit code 3"),
        ("raise ValueError('boom')", ExitCause.ERROR, 1, "ValueError: boom"),
        ("import os; os.kill(os.getpid(), 9)", ExitCause.PREEMPTED, 137, "SIGKILL"),
        ("import os; os.kill(os.getpid(), 15)", ExitCause.PREEMPTED, 143, "SIGTERM"),
        ("import ctypes; ctypes.string_at(0)", ExitCause.ERROR, 139, "SIGSEGV"),
        ("import os; os.abort()", ExitCause.ERROR, 134, "SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGBUS)", ExitCause.ERROR, 135, "SIGBUS"),
        (
            "import resource as r; r.setrlimit(r.RLIMIT_AS, (2**28, 2**28)); bytearray(2**30)",
            ExitCause.OUT_OF_MEMORY,
            1,
            "out of memory: MemoryError",
        ),
        (
            "import os, sys; print('what():  std::bad_alloc', flush=True); os.abort()",
            ExitCause.OUT_OF_MEMORY,
            134,
            "bad_alloc",
        ),
    ],
)
def test_why_a_process_ended_is_told(world, code, cause, exit_code, words):
    async def scenario():
        await world.platform.start(world.python("w", code))
        return await ended(world.platform, "w")

    pod = run(scenario())
    assert (pod.phase, pod.cause, pod.exit_code) == (Phase.ENDED, cause, exit_code)
    assert words in pod.detail


def test_a_command_that_cannot_be_run_never_started(world):
    pod = run(world.platform.start(world.spec("w", "no-such-command")))
    assert (pod.cause, pod.detail) == (
        ExitCause.NEVER_STARTED,
        "cannot run no-such-command: No such file or directory",
    )


def test_a_machine_without_room_for_a_process_is_a_failed_start(world):
    spec = world.spec("w", "true", HUGE="x" * 10_000_000)
    pod = run(world.platform.start(spec))
    assert pod.cause is ExitCause.NEVER_STARTED
    assert "Argument list too long" in pod.detail


def test_the_last_words_of_a_predecessor_are_not_blamed_on_its_successor(world):
    async def scenario():
        await world.platform.start(world.python("ps", "raise MemoryError"))
        await ended(world.platform, "ps")
        await world.platform.start(world.python("ps", "import sys; sys.exit(3)"))
        return await ended(world.platform, "ps")

    assert run(scenario()).detail == "exit code 3"


def test_stop_lets_a_pod_end_by_itself(world):
    code = (
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(75)); print('on', flush=True);"
        "signal.pause()"
    )

    async def scenario():
        await world.platform.start(world.python("w", code))
        await until_logged(world.platform, "w", "on")
        await world.platform.stop("w", 120)
        return await ended(world.platform, "w")

    assert run(scenario()).cause is ExitCause.DRAINED


def test_stop_ends_children_of_the_pod_too(world):
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]).wait()"

    async def scenario():
        await world.platform.start(world.python("w", code))
        await until_logged(world.platform, "w", "on")
        before = len(world.processes())
        await world.platform.stop("w", 0.1)
        return before, world.processes()

    assert run(scenario()) == (2, [])


@pytest.mark.parametrize("end", ["sys.exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_pods_children_do_not_outlive_it(world, end):
    code = f"import os, subprocess, sys; subprocess.Popen(['sleep', '1000']); {end}"

    async def scenario():
        await world.platform.start(world.python("w", code))
        await ended(world.platform, "w")
        return world.processes()

    assert run(scenario()) == []


def test_stop_all_ends_stubborn_pods_sooner_than_one_after_the_other(world):
    grace = 6

    async def scenario():
        names = [f"w-{n}" for n in range(8)]
        for name in names:
            await world.platform.start(world.python(name, STUBBORN))
        await asyncio.gather(*(until_logged(world.platform, name, "on") for name in names))
        begin = time.monotonic()
        await world.platform.stop_all(grace)
        return time.monotonic() - begin, world.processes()

    took, left = run(scenario())
    assert took < 8 * grace
    assert left == []


def test_stop_all_ends_pods_that_are_just_being_started(world):
    async def scenario():
        starts = [asyncio.create_task(world.platform.start(world.spec(f"w-{n}", *SLEEP))) for n in range(4)]
        await asyncio.sleep(0)
        for start in starts:
            start.cancel()
        await world.platform.stop_all(1)
        return world.processes()

    assert run(scenario()) == []


def test_stopping_what_does_not_run_is_no_error(world):
    run(world.platform.stop("nobody", 1))
    run(world.platform.stop_all(1))


def test_each_end_is_told_once_even_by_a_watch_that_begins_with_it(world):
    async def ends():
        return [pod.pid async for pod in (await world.platform.watch()).states() if pod.cause]

    async def scenario():
        watches = []
        code = "from elastic_runtime.platform.process.child import settle; settle(lambda: 0)"
        pod = await world.platform.start(world.python("w", code))
        waiting = asyncio.create_task(gone(pod.pid))
        while not waiting.done() or len(watches) < 20:
            watches.append(asyncio.create_task(ends()))
            await asyncio.sleep(0)
        await world.platform.stop("w", 1)
        await asyncio.sleep(0)
        await world.platform.close()
        return pod.pid, await asyncio.gather(*watches)

    pid, told = run(scenario())
    assert all(pids == [pid] for pids in told)


def test_a_watch_hears_of_a_pods_whole_life_in_order(world):
    async def scenario():
        watch = await world.platform.watch()
        await world.platform.start(world.spec("quick", "true"))
        await world.platform.start(world.spec("slow", *SLEEP))
        await world.platform.stop_all(1)
        await world.platform.close()
        return watch.pods, [(pod.name, pod.phase) async for pod in watch.changes()]

    seen, heard = run(scenario())
    assert seen == []
    for name in ("quick", "slow"):
        assert [phase for told, phase in heard if told == name] == [Phase.RUNNING, Phase.ENDED]


def test_following_a_log_ends_with_the_pod_and_misses_nothing(world):
    async def scenario():
        await world.platform.start(world.python("w", "for n in range(5000): print(n)\nprint('end', end='')"))
        return [line async for line in world.platform.logs("w", follow=True)]

    assert run(scenario()) == [*map(str, range(5000)), "end"]


def test_the_log_of_an_unknown_pod_names_the_nearest(world):
    async def scenario():
        await world.platform.start(world.spec("worker-1", "true"))
        await ended(world.platform, "worker-1")
        return [line async for line in world.platform.logs("worker-7")]

    with pytest.raises(InputError, match="did you mean 'worker-1'"):
        run(scenario())


def test_nothing_but_records_and_logs_is_left_in_the_run_folder(world):
    async def scenario():
        await world.platform.start(world.spec("w", sys.executable, "-c", "print(1)"))
        await ended(world.platform, "w")
        await world.platform.close()

    run(scenario())
    files = {str(path.relative_to(world.folder)) for path in world.folder.rglob("*") if path.is_file()}
    assert files == {"pods/w.json", "pods/w.exit", "logs/w.log"}
