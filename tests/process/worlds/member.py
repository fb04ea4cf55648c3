"""One member of a world, driven from outside: reads orders as JSON lines, answers each with one.

`new` (a member, which is what all further orders are for), `end` (of it), `enter`, `train` (a range of the
records everybody knows), `idle`, `leave`, `wish`, `state`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import keras
import numpy as np
import tensorflow as tf

from elastic_runtime.model.module import load
from elastic_runtime.worker.allreduce.collective import PeerLost, Place
from elastic_runtime.worker.allreduce.trainer import AllreduceTrainer
from elastic_runtime.worker.trainers.local import LocalTrainer

BATCH = 16
RECORDS = 50 * 3 * BATCH


def records(start: int, end: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The same numbers in every process."""
    chance = np.random.default_rng(7)
    features = chance.standard_normal((RECORDS, 20)).astype(np.float32)
    labels = (features[:, :4].sum(axis=1) > 0).astype(np.int64) + (features[:, 5] > 1)
    return tf.constant(features[start:end]), tf.constant(labels[start:end])


class Member:
    """A trainer and what can be asked of it."""

    def __init__(self, options: dict[str, Any]) -> None:
        keras.utils.set_random_seed(options["seed"])
        kind = options.pop("kind", "allreduce")
        zoo = Path(__file__).parent
        module = load(zoo / "classifier.py", zoo=zoo, model_params=options.pop("params", {}))
        make = LocalTrainer if kind == "local" else AllreduceTrainer
        self.trainer: Any = make(module, **options)
        spec = (tf.TensorSpec([None, 20], tf.float32), tf.TensorSpec([None], tf.int64))
        self.trainer.build(spec)
        self._batches: dict[tuple[int, int], Any] = {}

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do one thing; what came of it."""
        match order["do"]:
            case "enter":
                place = Place(order["world"], order["rank"], order["size"], order["store"], f"m{os.getpid()}")
                self.trainer.enter(place)
            case "train":
                key = order["start"], order["end"]
                batch = self._batches.setdefault(key, records(*key))
                self.trainer.train_batch(batch)
            case "idle":
                self.trainer.idle()
            case "leave":
                self.trainer.leave()
            case "wish":
                setattr(self.trainer, f"wants_{order['what']}", True)
            case "restart":
                self.trainer.go_back(None)
            case "abort":
                self.trainer.abort()
        return self._state(order["do"] == "state")

    def end(self) -> None:
        """Leave the world it may be in; the others may be doing anything."""
        if isinstance(self.trainer, AllreduceTrainer):
            self.trainer.abort()
            self.trainer.leave()

    def _state(self, whole: bool) -> dict[str, Any]:
        state = {"version": self.trainer.version}
        if isinstance(self.trainer, AllreduceTrainer):
            state |= {
                "checksum": self.trainer.checksum(),
                "settled": self.trainer.settled,
                "change": self.trainer.change_agreed,
                "snapshot": self.trainer.snapshot_taken,
                "rate": self.trainer.learning_rate(),
            }
        if whole:
            model = self.trainer.model
            state["weights"] = [np.asarray(w).ravel().tolist() for w in model.get_weights()]
            slots = [v.numpy().ravel().tolist() for v in self.trainer._network.optimizer.variables]
            state["slots"] = slots
        return state


def main() -> None:
    """Until there are no more orders."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    member: Any = None
    for line in sys.stdin:
        order, answer = json.loads(line), {}
        try:
            match order["do"]:
                case "new":
                    member = Member(order["options"])
                case "end":
                    member.end()
                case _:
                    answer = member.obey(order)
        except PeerLost as problem:
            answer = {"lost": str(problem)}
        answers.write(json.dumps(answer) + "\n")
    os._exit(0)


if __name__ == "__main__":
    main()
