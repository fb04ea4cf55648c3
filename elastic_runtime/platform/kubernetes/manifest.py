"""Objects as the YAML or JSON that `kubectl apply -f` takes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import yaml  # type: ignore[import-untyped]
from kubernetes.client import ApiClient

_HEAD = ("apiVersion", "kind", "metadata")


def to_yaml(objects: Iterable[Any]) -> str:
    """One document an object; text of several lines stays readable."""
    return str(
        yaml.dump_all(_items(objects), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)
    )


def _items(objects: Iterable[Any]) -> list[dict[str, Any]]:
    """What an object is comes before what is in it."""
    serialize = ApiClient().sanitize_for_serialization
    found = [serialize(each) for each in objects]
    return [{name: each[name] for name in _HEAD if name in each} | each for each in found]


def to_json(objects: Iterable[Any]) -> str:
    """One `List` of all of them."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": _items(objects)}, indent=2) + "\n"


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """YAML for people."""


def _text(dumper: _Dumper, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
