"""Running a command to its end, and waiting for what only time brings.

Programs of the kit get a plain environment: no proxy of the caller's stands between them and addresses of
the kit.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable

from elastic_runtime.errors import ElasticError

PLAIN_ENVIRONMENT = {
    "HOME": os.environ.get("HOME", "/"),
    "LANG": "C.UTF-8",
    "PATH": f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin",
}
LOOK_EVERY_SECONDS = 0.05


def run(*command: object, given: str = "", check: bool = True, env: dict[str, str] | None = None) -> str:
    """Runs `command` and returns what it printed; what it complained of is in the error."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env=PLAIN_ENVIRONMENT if env is None else env,
    )
    if check and done.returncode:
        raise ElasticError(
            f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}",
            where=" ".join(words)[:400],
        )
    return done.stdout


def until(
    condition: Callable[[], bool], *, what: str, seconds: float, every: float = LOOK_EVERY_SECONDS
) -> None:
    """Returns once `condition` holds; for what nothing tells us of."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ElasticError(f"{what}: not within {seconds:.0f} s")
        time.sleep(every)
