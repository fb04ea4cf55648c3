"""MNIST as the tutorials' models read it: `image`, 784 floats from 0 to 255, and `label`, one int64.

It comes from a `.npz` file, from a folder of the four original idx files, or from the small sample that is
shipped with this package.
"""

from __future__ import annotations

import importlib.resources

from elastic_runtime.data import storage
from elastic_runtime.data.convert import ConvertRequest, ConvertResult, convert
from elastic_runtime.data.convert.job import Progress
from elastic_runtime.errors import InputError

_NPZ = {"train": ("x_train", "y_train"), "test": ("x_test", "y_test")}
_IDX = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def sample() -> str:
    """The path of the shipped sample: 6 000 training and 1 000 test images."""
    return str(importlib.resources.files("elastic_runtime.data") / "samples" / "mnist_sample.npz")


def convert_mnist(output: str, source: str, progress: Progress | None = None) -> dict[str, ConvertResult]:
    """Write `train/data-%05d` and `test/data-%05d` under `output`."""
    if not source:
        remedy = "give --sample, or --source with mnist.npz or a folder of the original idx files"
        raise InputError("nothing says where MNIST is to be taken from", remedy=remedy)
    names = _NPZ if source.endswith(".npz") else _IDX
    results = {}
    for part, (images, labels) in names.items():
        schema = f"image={images}:float,label={labels}:int"
        folder = storage.join(output, part)
        request = ConvertRequest(source=source, output=folder, kind="arrays", schema=schema)
        results[part] = convert(request, progress)
    return results
