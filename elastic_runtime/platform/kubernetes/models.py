"""JSON as the `kubernetes` package's own objects, checked to the last key.

The package's own reading passes over what it does not know; here that is an error which names the place. Keys
may be written as in manifests (`clusterIP`) or as in the package (`cluster_ip`).
"""

from __future__ import annotations

from typing import Any

from kubernetes import client

from elastic_runtime.errors import InputError, nearest

_PLAIN: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
}


def read(kind: str, value: Any, where: str) -> Any:
    """`value` as what the package calls `kind`: `V1Toleration`, `list[V1EnvVar]`, `dict(str, str)`, `str`."""
    if kind.startswith("list["):
        each = kind[len("list[") : -1]
        return [read(each, one, f"{where}[{place}]") for place, one in enumerate(_of(list, value, where))]
    if kind.startswith("dict("):
        each = kind[len("dict(str, ") : -1]
        return {name: read(each, one, f"{where}.{name}") for name, one in _of(dict, value, where).items()}
    if kind in _PLAIN:
        types, words = _PLAIN[kind]
        if not isinstance(value, types) or (isinstance(value, bool) and kind != "bool"):
            raise InputError(f"got {value!r}", where=where, remedy=f"give {words}")
        return value
    model = getattr(client, kind, None)
    return value if model is None else _model(model, _of(dict, value, where), where)


def _model(model: Any, given: dict[str, Any], where: str) -> Any:
    attributes = {name: attribute for attribute, name in model.attribute_map.items()}
    fields: dict[str, Any] = {}
    for key, value in given.items():
        attribute = attributes.get(key, key)
        if attribute not in model.openapi_types:
            raise InputError(f"unknown key {key!r}", where=where, remedy=nearest(key, attributes))
        fields[attribute] = read(model.openapi_types[attribute], value, f"{where}.{key}")
    try:
        return model(**fields)
    except ValueError as error:  # a field that has to be there is not
        raise InputError(str(error), where=where) from None


def _of(kind: type, value: Any, where: str) -> Any:
    if not isinstance(value, kind):
        raise InputError(f"got {value!r}", where=where, remedy="give [...]" if kind is list else "give {...}")
    return value
