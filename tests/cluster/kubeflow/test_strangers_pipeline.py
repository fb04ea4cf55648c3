"""Our steps in a pipeline that somebody else has written, on Kubeflow Pipelines: beside plain components, in
loops and under conditions, with what is set on tasks the ordinary way, cached, and failing.

All runs but the one that finds things cached are started at once, and that one as soon as they can be.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from kfp import Client, dsl, kubernetes
from kfp.dsl import PipelineTask
from kfp.dsl.base_component import BaseComponent

from elasticdl_components import clean_up, convert, evaluate, train
from elasticdl_components.store import open_store
from tests.cluster.kit import kfp, kfp_services
from tests.cluster.kit.commands import until
from tests.cluster.kubeflow.ended import Ended, connected
from tests.cluster.kubeflow.runs import ENDED, LOOK_FOR_END, PIPELINE_SECONDS, all_started, started, told

PYTHON = "python:3.11"  # the pipeline says which
SEEDS = [1, 2]
ROWS = 500
SCHEMA = "a:float,b:float,good:int"
POOL = {"key": "pool", "value": "training", "effect": "NoSchedule"}
LIMITS = {"cpu": "2", "memory": "3G"}
JOB = re.compile(r"\bjob (\S+): ParameterServerStrategy")
UNNAMED = re.compile(r"train-[0-9a-f]{10}")
KEPT = re.compile(rf"its report is kept: minio://{kfp_services.BUCKET}/(\S+)")

GAUGE = """
import keras
import tensorflow as tf

FEATURES = {"a": tf.io.FixedLenFeature([1], tf.float32), "b": tf.io.FixedLenFeature([1], tf.float32)}


def custom_model():
    inputs = keras.Input((2,), name="measured")
    return keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(inputs), name="gauge")


def feed(dataset, mode, metadata):
    def parse(record):
        found = tf.io.parse_single_example(record, FEATURES | {"good": tf.io.FixedLenFeature([1], tf.int64)})
        return tf.concat([found["a"], found["b"]], 0), found["good"]

    return dataset.map(parse)


def loss(labels, predictions):
    return keras.losses.binary_crossentropy(tf.cast(labels, tf.float32), predictions)


def optimizer():
    return keras.optimizers.Adam(0.1)


def eval_metrics_fn():
    return {"accuracy": keras.metrics.BinaryAccuracy()}
"""
BROKEN = """
import gauge
import tensorflow as tf
from gauge import custom_model, eval_metrics_fn, feed, optimizer


def loss(labels, predictions):
    def known(values):
        if (values > 1).any():
            raise ValueError(f"{values.max()} is neither good nor bad")
        return values

    checked = tf.numpy_function(known, [labels], tf.int64)
    return gauge.loss(tf.ensure_shape(checked, labels.shape), predictions)
"""
"""Judges the labels, at which one of them is no label."""


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def measure(table: dsl.Output[dsl.Dataset], rows: int, odd: int = -1):
    """A table of two measures and a judgement, which makes no sense in the odd row."""
    import random

    random.seed(1)
    with open(table.path, "w") as file:
        file.write("a,b,good\n")
        for row in range(rows):
            a, b = random.gauss(0, 1), random.gauss(0, 1)
            file.write(f"{a},{b},{7 if row == odd else int(a + b > 0)}\n")


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def name_of(run: str, seed: int) -> str:
    """What KFP itself cannot put together, neither of the run's id nor of a loop's item."""
    return f"{run}-{seed}"


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def compare(found: list[float], figures: dsl.Output[dsl.Metrics]):
    figures.log_metric("trainings", len(found))
    figures.log_metric("worst", min(found))


@dsl.component(base_image=PYTHON, install_kfp_package=False)
def complain(found: float):
    raise SystemExit(f"{found} is too little")


@dsl.pipeline(name="end-them")
def end_them(run: str):
    for seed in SEEDS:
        clean_up(job_name=f"{run}-{seed}")


def in_the_pool(task: PipelineTask) -> PipelineTask:
    """With all that is set on a task the ordinary way."""
    kubernetes.add_toleration(task, operator="Equal", **POOL)
    kubernetes.add_node_selector(task, POOL["key"], POOL["value"])
    task.set_cpu_request("100m").set_memory_request("512M")
    return task.set_cpu_limit(LIMITS["cpu"]).set_memory_limit(LIMITS["memory"])


def with_models(task: PipelineTask) -> PipelineTask:
    kubernetes.use_config_map_as_volume(task, config_map_name="models", mount_path="/models")
    return task


def converted_from(image: str, rows: int) -> PipelineTask:
    measured = measure(rows=rows).set_container_image(image).outputs["table"]
    return convert(format="csv", source_dataset=measured, schema=SCHEMA, split="train=0.8,test=0.2")


def trained_on(data: Any, **given: Any) -> PipelineTask:
    task = train(
        model_zoo="/models",
        model_def="gauge.custom_model",
        training_dataset=data,
        training_split="train",
        validation_split="test",
        minibatch_size=16,
        num_epochs=3,
        num_workers=1,
        **given,
    )
    return with_models(task)


def stranger(image: str) -> BaseComponent:
    """Trains once for each seed, and judges what is good enough; and once without a name for the job."""

    @dsl.pipeline(name="stranger")
    def pipeline(rows: int = ROWS):
        run = dsl.PIPELINE_JOB_ID_PLACEHOLDER
        with dsl.ExitHandler(end_them(run=run)):
            converted = converted_from(image, rows).set_cpu_limit("1").set_memory_limit("2G")
            data = converted.outputs["dataset"]
            with dsl.ParallelFor(SEEDS) as seed:
                name = name_of(run=run, seed=seed).set_container_image(image).output
                trained = trained_on(data, job_name=name, seed=seed)
                in_the_pool(trained).set_retry(2)
                best = trained.outputs["best_metric"]
                with dsl.If(best > 0.6):
                    with_models(evaluate(model=trained.outputs["model"], dataset=data, split="test"))
                with dsl.Else():
                    complain(found=best).set_container_image(image)
            compare(found=dsl.Collected(best)).set_container_image(image)
            trained_on(data)

    return pipeline


def stranger_again(image: str) -> BaseComponent:
    """What is left of it another day: of the same name, by which KFP looks for what it has done before."""

    @dsl.pipeline(name="stranger")
    def pipeline(rows: int = ROWS):
        data = converted_from(image, rows).outputs["dataset"]
        with_models(evaluate(model=trained_on(data).outputs["model"], dataset=data, split="test"))

    return pipeline


@pytest.fixture(scope="module")
def models(pipelines: kfp.Kfp, our_image: str) -> Iterator[None]:
    """The stranger's own model, and one with a mistake, for pods to mount."""
    files = {"gauge.py": GAUGE, "broken.py": BROKEN}
    pipelines.namespace.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "models"}, "data": files}
    )
    yield
    pipelines.namespace.kubectl("delete", "configmap", "models")


@pytest.fixture(scope="module")
def pool(pipelines: kfp.Kfp) -> Iterator[str]:
    """A node where only what tolerates it goes."""
    node = pipelines.cluster.nodes[-1].name
    label, taint = f"{POOL['key']}={POOL['value']}", "{key}={value}:{effect}".format_map(POOL)
    pipelines.cluster.kubectl("label", "node", node, label)
    pipelines.cluster.kubectl("taint", "node", node, taint)
    try:
        yield node
    finally:
        pipelines.cluster.kubectl("taint", "node", node, f"{taint}-")
        pipelines.cluster.kubectl("label", "node", node, f"{POOL['key']}-")


def absent_model(image: str) -> BaseComponent:
    """Names a model that is not there, and may try again."""

    @dsl.pipeline(name="absent-model")
    def pipeline():
        run = dsl.PIPELINE_JOB_ID_PLACEHOLDER
        with dsl.ExitHandler(clean_up(job_name=run)):
            trained = train(
                job_name=run, model_zoo="/models", model_def="guage.custom_model", training_data="/models"
            )
            with_models(trained).set_retry(1)

    return pipeline


def broken_loss(image: str) -> BaseComponent:
    """Trains until the last record, at which the model's own code fails."""

    @dsl.pipeline(name="broken-loss")
    def pipeline():
        run = dsl.PIPELINE_JOB_ID_PLACEHOLDER
        with dsl.ExitHandler(clean_up(job_name=run)):
            measured = measure(rows=ROWS, odd=ROWS - 1).set_container_image(image).outputs["table"]
            data = convert(format="csv", source_dataset=measured, schema=SCHEMA).outputs["dataset"]
            trained = train(
                job_name=run,
                model_zoo="/models",
                model_def="broken.custom_model",
                training_dataset=data,
                shuffle_shards=False,
                minibatch_size=16,
                num_minibatches_per_task=2,
                num_workers=1,
            )
            open_store(with_models(trained))
            with_models(evaluate(model=trained.outputs["model"], dataset=data))

    return pipeline


Runs = Mapping[Callable[[str], BaseComponent], str]


@pytest.fixture(scope="module")
def runs(pipelines: kfp.Kfp, plain_image: str, pool: str, models: None) -> Runs:
    """The run of each of these pipelines, just started."""
    with connected(pipelines) as client:
        create = client.create_run_from_pipeline_func
        written = (stranger, absent_model, broken_loss)
        starts = {each: functools.partial(create, each(plain_image)) for each in written}
        return all_started(pipelines, client, starts)


def jobs(run: Ended, task: str = "train") -> set[str]:
    """The names of the jobs that a task's trainings were, by their logs."""
    said = ["\n".join(run.said(pod)) for pod in run.pods(task)]
    return {found[1] for found in map(JOB.search, said) if found}


def main(pod: Any) -> Any:
    """The container in which the step is."""
    return next(each for each in pod["spec"]["containers"] if each["name"] == "main")


def last_words(pod: Any) -> str:
    """What Kubernetes tells of the step's end."""
    ends = {each["name"]: each["state"] for each in pod["status"]["containerStatuses"]}
    return str(ends["main"]["terminated"].get("message", ""))


def inputs(pod: Any) -> Any:
    """What KFP gives to the step in it."""
    words = [*main(pod)["command"], *main(pod).get("args", [])]
    return json.loads(words[words.index("--executor_input") + 1])["inputs"]


def test_training_is_never_cached_whatever_its_inputs_and_what_is_before_it_is(
    pipelines: kfp.Kfp, client: Client, plain_image: str, runs: Runs
) -> None:
    """The second run begins when the first has what it needs, while that goes on."""
    number = runs[stranger]

    def is_trained() -> bool:
        first = Ended(pipelines, number, told(client, number))
        assert first.state not in ENDED - {"SUCCEEDED"}, first.report()
        return first.states("train-2") == ["SUCCEEDED"]

    what = "the first run has trained without a name"
    until(is_trained, what=what, seconds=PIPELINE_SECONDS, every=LOOK_FOR_END)
    create = functools.partial(client.create_run_from_pipeline_func, stranger_again(plain_image))
    again = Ended.of(pipelines, client, started(pipelines, client, create), PIPELINE_SECONDS)
    assert again.state == "SUCCEEDED", again.report()
    first = Ended(pipelines, number, told(client, number))
    for task in ("measure", "convert"):
        assert first.pods(task)
        assert not again.pods(task)
        assert again.states(task) == ["SUCCEEDED"]
        assert again.is_cached(task)
        assert not first.is_cached(task)
    [pod], [trained_again] = first.pods("train-2"), again.pods("train")
    assert inputs(pod) == inputs(trained_again)
    assert not again.is_cached("train")
    [job], [other_job] = jobs(first, "train-2"), jobs(again)
    assert job != other_job
    assert UNNAMED.fullmatch(job)
    assert UNNAMED.fullmatch(other_job)
    assert len(again.artifacts("evaluate", "system.HTML")) == 1


def test_our_steps_do_what_they_are_told_in_a_strangers_pipeline(
    pipelines: kfp.Kfp, client: Client, pool: str, runs: Runs
) -> None:
    run = Ended.of(pipelines, client, runs[stranger], PIPELINE_SECONDS)
    assert run.state == "SUCCEEDED", run.report()
    assert_each_seed_was_trained_and_judged(run)
    [compared] = run.artifacts("compare", "system.Metrics")
    assert compared.figures["trainings"] == len(SEEDS)
    assert compared.figures["worst"] > 0.6
    assert_pods_are_as_asked(run, pool)


def assert_each_seed_was_trained_and_judged(run: Ended) -> None:
    assert jobs(run) == {f"{run.number}-{seed}" for seed in SEEDS}
    assert len(run.artifacts("train", "system.Model")) == len(SEEDS)
    assert len(run.artifacts("evaluate", "system.HTML")) == len(SEEDS)
    assert not run.pods("complain")
    for seed, task in zip(SEEDS, ("clean-up", "clean-up-2"), strict=True):
        [cleaned] = run.pods(task)
        assert any(f"job {run.number}-{seed}: nothing was left" in line for line in run.said(cleaned))


def assert_pods_are_as_asked(run: Ended, pool: str) -> None:
    for pod in run.pods("train"):
        spec = pod["spec"]
        assert main(pod)["resources"]["limits"] == LIMITS
        assert POOL.items() <= next(each for each in spec["tolerations"] if each["key"] == "pool").items()
        assert spec["nodeSelector"] == {POOL["key"]: POOL["value"]}
        assert spec["nodeName"] == pool
    [converted] = run.pods("convert")
    assert main(converted)["resources"]["limits"] == {"cpu": "1", "memory": "2G"}
    assert converted["spec"]["nodeName"] != pool


def test_a_model_that_is_not_there_fails_each_attempt_and_the_run_with_the_reason_as_last_line(
    pipelines: kfp.Kfp, client: Client, runs: Runs
) -> None:
    run = Ended.of(pipelines, client, runs[absent_model], PIPELINE_SECONDS)
    assert run.state == "FAILED", run.report()
    assert run.states("train") == ["FAILED"]
    attempts = run.pods("train")
    assert len(attempts) == 2
    for pod in attempts:
        last = run.said(pod)[-1]
        assert last.startswith("error: --model_def: 'guage.custom_model': there is no "), run.report()
        assert "the nearest is /models/gauge.py" in last
        assert last == f"error: {last_words(pod).strip()}"
        assert "Traceback" not in "\n".join(run.said(pod))
    assert run.pods("clean-up")


def test_a_loss_that_raises_fails_the_run_and_the_log_says_where_curves_are(
    pipelines: kfp.Kfp, client: Client, runs: Runs
) -> None:
    run = Ended.of(pipelines, client, runs[broken_loss], PIPELINE_SECONDS)
    assert run.state == "FAILED", run.report()
    assert run.states("train") == ["FAILED"]
    assert not run.pods("evaluate")
    assert run.pods("clean-up")
    [pod] = run.pods("train")
    said = run.said(pod)
    assert said[-1].startswith(f"error: job {run.number} failed: records "), run.report()
    assert "7 is neither good nor bad" in said[-1]
    assert "broken.py" in "\n".join(said), "where it failed is not told"
    [kept] = [found[1] for found in map(KEPT.search, said) if found]
    assert kept.split("/")[-3] == "train"
    page = pipelines.store.read(kept).decode()
    assert "Training loss" in page
    assert "7 is neither good nor bad" in page
