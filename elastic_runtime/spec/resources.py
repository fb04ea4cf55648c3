"""What `--*_resource_request` and `--*_resource_limit` say, in Kubernetes' own names and quantities."""

from __future__ import annotations

import re
from fractions import Fraction

from elastic_runtime.errors import InputError, nearest
from elastic_runtime.spec.pairs import pairs

_NAMES = {
    "cpu": "cpu",
    "memory": "memory",
    "disk": "ephemeral-storage",
    "ephemeral-storage": "ephemeral-storage",
    "gpu": "nvidia.com/gpu",
}
UNLIMITED = "none"
_CPU = re.compile(r"[0-9]+|[0-9]*\.[0-9]+|[1-9][0-9]*m")
_BYTES = re.compile(r"[1-9][0-9]*[EPTGMK]i?|[1-9][0-9]{6,}")
"""Bytes may be without a unit, as KFP hands them over; of less than a million it was forgotten."""
_COUNT = re.compile(r"[0-9]+")
_DEVICE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_SIZES = {prefix: power for power, prefix in enumerate("KMGTPE", start=1)}


def parse_resources(text: str) -> dict[str, str]:
    """`cpu=0.4,memory=1024Mi,gpu=1` as Kubernetes wants it; `gpu` means nvidia.com/gpu."""
    found: dict[str, str] = {}
    for key, value in pairs(text).items():
        name = _NAMES.get(key, key)
        if key not in _NAMES and not _DEVICE.fullmatch(key):
            raise InputError(
                f"unknown resource {key!r}", remedy=nearest(key, [*_NAMES, "<vendor domain>/<device>"])
            )
        if name in found:
            raise InputError(f"{name!r} is given twice, as {found[name]!r} and {value!r}")
        _check(name, value)
        found[name] = value
    return found


def parse_limit(text: str) -> dict[str, str]:
    """Like resources; or `none`, as many as there are."""
    return {} if text == UNLIMITED else parse_resources(text)


def limits(request: str, limit: str) -> dict[str, str]:
    """The limits that go with a request: those given, or the request itself when none are."""
    return parse_limit(limit or request)


def excess(request: str, limit: str) -> str:
    """The resource whose request is larger than its limit, told in words; empty when there is none."""
    bounds = limits(request, limit)
    for name, wanted in parse_resources(request).items():
        if name in bounds and quantity(wanted) > quantity(bounds[name]):
            return f"{name} is requested as {wanted} but limited to {bounds[name]}"
    return ""


def quantity(text: str) -> Fraction:
    """A Kubernetes quantity as a number: `100m`, `0.4`, `1024Mi`."""
    if text.endswith("m"):
        return Fraction(text[:-1]) / 1000
    base = 1024 if text.endswith("i") else 1000
    digits = text.rstrip("KMGTPEi")
    prefix = text[len(digits) : len(digits) + 1]
    return Fraction(digits) * Fraction(base ** _SIZES.get(prefix, 0))


def _check(name: str, value: str) -> None:
    if name == "cpu":
        pattern, form = _CPU, "a number such as 0.5, or thousandths such as 500m"
    elif name in ("memory", "ephemeral-storage"):
        pattern, form = _BYTES, "a whole number and a unit, such as 1024Mi or 4G"
    else:
        pattern, form = _COUNT, "a whole number"
    if not pattern.fullmatch(value):
        raise InputError(f"{name}={value} is not {form}")
