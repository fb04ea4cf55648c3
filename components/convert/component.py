"""Convert a dataset to RecordIO."""

from kfp import dsl

from elastic_runtime.steps.convert import check

from ..image import IMAGE
from ..step import step


@step(check=check)
@dsl.component(base_image=IMAGE, install_kfp_package=False)
def convert(
    dataset: dsl.Output[dsl.Dataset],
    samples: dsl.Output[dsl.Markdown],
    source: str = "",
    source_dataset: dsl.Input[dsl.Dataset] = None,
    format: str = "",  # noqa: A002 - as users call it
    schema: str = "",
    split: str = "",
    records_per_file: int = 4096,
    on_error: str = "fail",
    seed: int = 0,
    delimiter: str = "",
    image_size: str = "",
    image_mode: str = "",
    output: str = "",
) -> int:
    """Convert CSV, JSON lines, images, arrays or TFRecord files to RecordIO, which workers read in pieces.

    Args:
        dataset: The RecordIO files; its metadata say how many records there are, in all and in each part,
            and the shapes of pictures: height, width, colours.
        samples: How many records there are, of what kind, and the first few of them; images, and arrays of
            two dimensions a row, or three with 1, 3 or 4 colours last, are drawn.
        source: File, folder, glob or comma-separated list, as paths or URIs.
        source_dataset: The same as an artifact.
        format: One of arrays, csv, images, jsonl, tfrecord, mnist; default: the files' names tell. The
            format mnist without a source is a small sample of MNIST.
        schema: The features to write: `name:type,...` or `name=column:type,...`; default: all there are.
        split: The parts to make: `train=0.9,test=0.1`; each is a sub-folder of the dataset.
        records_per_file: How many records a file gets.
        on_error: `fail` at the first bad row, or `skip` and set it aside.
        seed: Decides which rows go to which part.
        delimiter: Of CSV; default: a comma, or a tab in .tsv and .tab files.
        image_size: `HEIGHTxWIDTH` to scale images to; default: all have the first one's size.
        image_mode: `L` (grey) or `RGB`; default: that of the first image.
        output: A folder or URI to write to, instead of the pipeline's own place for the dataset; on Kubeflow
            Pipelines a folder on a mounted volume.

    Returns:
        The number of records.
    """
    given = dict(locals())
    from elastic_runtime.steps import carry_out
    from elastic_runtime.steps.convert import convert

    return carry_out(convert, given)
