"""The tiny model, whose export ends when the test lets it: once `TINY_PACE` holds nothing."""

import os
import time
from pathlib import Path

import tiny
from tiny import eval_metrics_fn, feed, loss, optimizer

__all__ = ["custom_model", "eval_metrics_fn", "feed", "loss", "optimizer"]


def custom_model():
    model = tiny.custom_model()
    save = model.save

    def save_when_told(path):
        print("the export has begun", flush=True)
        while Path(os.environ["TINY_PACE"]).read_text():
            time.sleep(0.02)
        save(path)

    model.save = save_when_told
    return model
