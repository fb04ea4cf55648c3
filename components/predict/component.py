"""Predict for each record of a dataset."""

from kfp import dsl

from elastic_runtime.steps.model_use import check

from ..image import IMAGE
from ..step import step


@step(check=check)
@dsl.component(base_image=IMAGE, install_kfp_package=False)
def predict(
    model: dsl.Input[dsl.Model],
    dataset: dsl.Input[dsl.Dataset],
    predictions: dsl.Output[dsl.Dataset],
    split: str = "",
    keep: str = "",
    records_per_file: int = 4096,
    output: str = "",
    model_zoo: str = "",
    model_def: str = "",
    model_params: str = "",
    feed: str = "",
    data_reader_params: str = "",
    minibatch_size: int = 0,
) -> int:
    """Predict with a finished model, record by record.

    Args:
        model: What the step train has made.
        dataset: The records to predict from.
        predictions: RecordIO files of the outputs, with the place of the record that each is for.
        split: The part of the dataset, if it was split.
        keep: Features to copy from the dataset, `id,label`.
        records_per_file: How many records a file gets.
        output: A folder or URI to write to, instead of the pipeline's own place for the predictions; on
            Kubeflow Pipelines a folder on a mounted volume.
        model_zoo: Folder of model modules; default: as trained, like all that follows.
        model_def: The model's module.
        model_params: Keyword arguments of the model's function.
        feed: Name of the function that parses records.
        data_reader_params: Keyword arguments of the data reader.
        minibatch_size: Records in a minibatch.

    Returns:
        The number of records.
    """
    given = dict(locals())
    from elastic_runtime.steps import carry_out
    from elastic_runtime.steps.predict import predict

    return carry_out(predict, given)
