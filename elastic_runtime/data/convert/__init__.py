"""Datasets of other kinds into RecordIO files of `tf.train.Example`s.

Each kind of source (`arrays`, `csv`, `jsonl`, `images`, `tfrecord`) is a module that yields rows and knows
how to encode one. Rows are encoded by one process a core, a file at a time; the files appear in their folder
only when all are done.
"""

from __future__ import annotations

from elastic_runtime.data.convert.job import convert
from elastic_runtime.data.convert.request import ConvertRequest, ConvertResult

__all__ = ["ConvertRequest", "ConvertResult", "convert"]
