"""What Kubeflow Pipelines calls `minio://`: the store that its installation has for artifacts.

It speaks S3, but neither is it where `s3://` is, nor is it opened by the same keys. So fsspec's variables of
this name say where and by what, FSSPEC_MINIO_ENDPOINT_URL, FSSPEC_MINIO_KEY and FSSPEC_MINIO_SECRET; without
them it is what `s3://` is.
"""

from __future__ import annotations

from typing import Any

from s3fs import S3FileSystem  # type: ignore[import-untyped]


class Minio(S3FileSystem):  # type: ignore[misc]
    """S3 of another name."""

    protocol = ("minio",)

    def __init__(self, *, key: object = None, secret: object = None, **more: Any) -> None:
        keys = {"key": key, "secret": secret}  # fsspec takes one that is all digits for a number
        super().__init__(
            **{name: value if value is None else str(value) for name, value in keys.items()}, **more
        )
