"""MNIST as the tutorials' models read it: `image`, 784 floats from 0 to 255, and `label`, one int64.

It comes from a `.npz` file, from a folder of the four original idx files, or from the small sample that is
shipped with this package; and if nothing is said, from the web, as Keras gets it: kept where Keras keeps it,
so whichever of the two comes second finds it there.
"""

from __future__ import annotations

import importlib.resources
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from elastic_runtime.data import storage
from elastic_runtime.data.convert import ConvertRequest, ConvertResult, convert
from elastic_runtime.data.convert.job import Progress
from elastic_runtime.data.download import download, is_whole

URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"
_REMEDY = (
    "--sample takes the 6 000 + 1 000 images that come with elasticdl, --source mnist.npz or a folder of the "
    "original idx files"
)
_NPZ = {"train": ("x_train", "y_train"), "test": ("x_test", "y_test")}
_IDX = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def sample() -> str:
    """The path of the shipped sample: 6 000 training and 1 000 test images."""
    return str(importlib.resources.files("elastic_runtime.data") / "samples" / "mnist_sample.npz")


@contextmanager
def published(url: str, say: Callable[[str], None]) -> Iterator[str]:
    """The path of all of it, downloaded if it is not kept; for this while only, where nothing can be kept."""
    kept = _place_to_keep()
    if kept and is_whole(kept, SHA256):
        yield str(kept)
        return
    with tempfile.TemporaryDirectory(prefix="elasticdl-mnist-") as scratch:
        path = kept if kept and _can_be_written(kept.parent) else Path(scratch, "mnist.npz")
        say(f"downloading {url}")
        download(url, path, sha256=SHA256, remedy=_REMEDY)
        yield str(path)


def convert_mnist(output: str, source: str, progress: Progress | None = None) -> dict[str, ConvertResult]:
    """Write `train/data-%05d` and `test/data-%05d` under `output`."""
    names = _NPZ if source.endswith(".npz") else _IDX
    results = {}
    for part, (images, labels) in names.items():
        schema = f"image={images}:float,label={labels}:int"
        folder = storage.join(output, part)
        request = ConvertRequest(source=source, output=folder, kind="arrays", schema=schema)
        results[part] = convert(request, progress)
    return results


def _place_to_keep() -> Path | None:
    """Where Keras has it; a user without a home has no such place."""
    try:
        keras = Path(os.environ.get("KERAS_HOME") or "~/.keras").expanduser()
    except RuntimeError:
        return None
    return keras / "datasets" / "mnist.npz"


def _can_be_written(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
