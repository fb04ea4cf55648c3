"""A step ends when its work is done, whatever would wait for ever while Python winds down.

Seen of TensorFlow, now and then: a thread of its data pipeline waits for Python, and Python for the thread.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ON_KFP = """
import atexit, sys, threading
from elastic_runtime.errors import ElasticError
from elastic_runtime.steps import carry_out

atexit.register(threading.Event().wait)  # it would, while Python winds down

def step(end):
    if end == "refused":
        raise ElasticError("it would not")
    if end == "broken":
        raise KeyError("broken")

carry_out(step, {"end": sys.argv[1]})
sys.stdout.write("all that KFP writes then")
if sys.argv[1] == "broken later":
    raise ValueError("later")
"""


@pytest.mark.parametrize(
    ("end", "code", "told", "said"),
    [
        ("well", 0, "all that KFP writes then", ""),
        ("refused", 1, "", "error: it would not"),
        ("broken", 1, "", "KeyError: 'broken'"),
        ("broken later", 1, "all that KFP writes then", "ValueError: later"),
    ],
)
def test_a_step_in_kfps_process_ends_at_once(end: str, code: int, told: str, said: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ON_KFP, end],
        env={**os.environ, "_KFP_RUNTIME": "true"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (code, told), ended.stderr
    assert said in ended.stderr
