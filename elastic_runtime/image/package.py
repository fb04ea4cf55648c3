"""The running program as a wheel, so that the image runs the very program whose command made it.

No release has to exist, and none can be a different one. The same program makes the same bytes.
"""

from __future__ import annotations

import zipfile
from importlib import metadata
from pathlib import Path

import elastic_runtime
from elastic_runtime.errors import InputError

NAME = "elasticdl"
_ANY_TIME = (1980, 1, 1, 0, 0, 0)
_WHEEL = "Wheel-Version: 1.0\nGenerator: elasticdl\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def pack(folder: Path) -> Path:
    """Writes the wheel into `folder` and returns its path."""
    try:
        installed = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        raise InputError(
            "an image needs this program as a package, and it is not installed as one",
            remedy="pip install it, or give wheels by --local_pkg_dir",
        ) from None
    program = Path(elastic_runtime.__file__).parent
    about = f"{NAME}-{installed.version}.dist-info"
    content = {f"{about}/{name}": (installed.read_text(name) or "").encode() for name in _COPIED}
    content |= {
        str(path.relative_to(program.parent)): path.read_bytes()
        for path in sorted(program.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    content[f"{about}/WHEEL"] = _WHEEL.encode()
    record = f"{about}/RECORD"
    content[record] = "".join(f"{name},,\n" for name in [*content, record]).encode()
    wheel = folder / f"{NAME}-{installed.version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(_entry(name), data)
    return wheel


_COPIED = ("METADATA", "entry_points.txt")


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _ANY_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
