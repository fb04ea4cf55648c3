"""What a pod's process runs first: take the pod's lock, leave its record, become the pod's command.

Run by path with a bare interpreter (`python -I -S launch.py RECORD EXIT MASTER FACTS COMMAND...`), so it
imports nothing of the package. The record file is the lock: a POSIX lock stays with the process over
`execve`, is not inherited by its children, ends with it, and names it to whoever asks. So "locked" means
"alive" at every moment, and of two starts of one pod only one gets past the lock.

A launch whose master died before the lock was taken gives up: whoever claims the run folder after that
death sees every pod that will ever come of it. It leaves no record, if it can: the next master asks for the
same pod, and nothing was lost. Complaints go to descriptor 3, which closes without a word on success.
"""

import contextlib
import fcntl
import json
import os
import sys
from typing import Any, NoReturn

REPLY = 3
TAKEN = "another process is this pod already"
GONE = "the master is gone"
EXIT_GAVE_UP = 127


def main(record: str, exit_record: str, master: int, facts: str, command: list[str]) -> NoReturn:
    """Become the command, or exit with a reason."""
    os.closerange(REPLY + 1, os.sysconf("SC_OPEN_MAX"))
    os.set_inheritable(REPLY, False)
    told = json.loads(facts)
    lock = os.open(record, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _give_up(TAKEN, told)
    if os.getppid() != master:
        _give_up(GONE, told)
    written = os.pwrite(lock, json.dumps(told | {"pid": os.getpid()}).encode(), 0)
    os.ftruncate(lock, written)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(exit_record)
    if os.getppid() != master:  # since a moment ago
        _give_up(GONE, told)
    os.set_inheritable(lock, True)
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        _give_up(f"cannot run {command[0]}: {error.strerror}", told)


def _give_up(why: str, facts: dict[str, Any]) -> NoReturn:
    with contextlib.suppress(OSError):
        os.rmdir(facts.get("scratch", ""))
    with contextlib.suppress(BrokenPipeError):
        os.write(REPLY, why.encode())
    raise SystemExit(EXIT_GAVE_UP)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:])
