"""The tiny model, whose worker dies between its pushes to two parameter servers when the test wants it.

It does so for the file `torn` beside that of `TINY_PACE`, which it takes away: one worker does, once.
"""

import contextlib
import os
import signal
import threading
from pathlib import Path

from tiny import custom_model, eval_metrics_fn, feed, loss, optimizer

from elastic_runtime.ps.remote import Remote

__all__ = ["custom_model", "eval_metrics_fn", "feed", "loss", "optimizer"]

SECONDS = 60
_push = Remote.push
_answered = threading.Condition()
_answers = {0: 0, 1: 0}  # pushes that each server has answered


def _push_or_die(self, *what):
    if self.index == 1:
        with contextlib.suppress(FileNotFoundError):
            Path(os.environ["TINY_PACE"]).with_name("torn").unlink()
            with _answered:  # an asynchronous push goes to both at once
                _answered.wait_for(lambda: _answers[0] > _answers[1], SECONDS)
            os.kill(os.getpid(), signal.SIGKILL)
    reply = _push(self, *what)
    with _answered:
        _answers[self.index] += 1
        _answered.notify_all()
    return reply


Remote.push = _push_or_die
