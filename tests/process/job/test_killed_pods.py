"""Pods are killed while they train: the job ends right, and every record is accounted for."""

from __future__ import annotations

import re

import pytest
from conftest import MakeRun

from elastic_runtime.observe import events

pytestmark = pytest.mark.tensorflow


def test_killed_workers_are_replaced_and_every_record_is_done_once(make_run: MakeRun) -> None:
    run = make_run("--num_workers=2", "--num_epochs=2", "--grads_to_wait=2")
    run.pace(0.01)
    run.start().until_training(workers=2)
    run.until_done(200)

    run.kill("worker-0")
    run.until(lambda: "elasticdl-" + run.name + "-worker-2" in run.members(), "a replacement of worker 0")
    run.kill("worker")
    run.until_training(workers=2)

    run.pace(0)
    summary = run.assert_right_end()
    assert summary["relaunches"] == {"preempted": 3}
    assert summary["records_retrained"] > 0
    assert "preempted" in run.text()
