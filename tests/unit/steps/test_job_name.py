"""A step's job has the same name at each attempt, and one that Kubernetes takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.spec import values
from elastic_runtime.steps.job_name import job_name


def test_a_name_that_can_be_one_stays() -> None:
    assert job_name("mnist-7") == "mnist-7"


def test_the_name_of_a_run_that_is_too_long_keeps_what_tells_it_from_others() -> None:
    first, second = (job_name(f"mnist-5f0c2f1e-9d5b-4d0e-8c1a-0123456789a{end}") for end in "bc")
    assert first.startswith("mnist-5f0c2f1e-")
    assert first != second


@given(st.text())
def test_whatever_it_is_called_it_is_a_jobs_name_and_always_the_same(text: str) -> None:
    name = job_name(text)
    assert values.job_name(name) == name == job_name(text)
    assert job_name(name) == name


def test_without_a_name_the_output_tells_one_step_from_another() -> None:
    names = {job_name(f"s3://bucket/run-{run}/train/model", given=False) for run in range(3)}
    assert len(names) == 3
    assert all(values.job_name(name).startswith("train-") for name in names)
