"""Evaluate a finished model on a dataset."""

from kfp import dsl

from elastic_runtime.steps.model_use import check

from ..image import IMAGE
from ..step import step


@step(check=check)
@dsl.component(base_image=IMAGE, install_kfp_package=False)
def evaluate(
    model: dsl.Input[dsl.Model],
    dataset: dsl.Input[dsl.Dataset],
    metrics: dsl.Output[dsl.Metrics],
    classification: dsl.Output[dsl.ClassificationMetrics],
    report: dsl.Output[dsl.HTML],
    split: str = "",
    class_names: str = "",
    model_zoo: str = "",
    model_def: str = "",
    model_params: str = "",
    feed: str = "",
    eval_metrics_fn: str = "",
    data_reader_params: str = "",
    minibatch_size: int = 0,
):
    """Evaluate a finished model: its metrics, and for a classifier the confusion matrix and ROC curve.

    Args:
        model: What the step train has made.
        dataset: The records to evaluate on.
        metrics: The loss, and the figures of the module's eval_metrics_fn.
        classification: Confusion matrix and ROC curve; empty if the model is no classifier.
        report: The same as one page.
        split: The part of the dataset, if it was split.
        class_names: The classes' names in order, `cat,dog`; default: their numbers.
        model_zoo: Folder of model modules; default: as trained, like all that follows.
        model_def: The model's module.
        model_params: Keyword arguments of the model's function.
        feed: Name of the function that parses records.
        eval_metrics_fn: Name of the function that makes the metrics.
        data_reader_params: Keyword arguments of the data reader.
        minibatch_size: Records in a minibatch.
    """
    given = dict(locals())
    from elastic_runtime.steps import carry_out
    from elastic_runtime.steps.evaluate import evaluate

    carry_out(evaluate, given)
