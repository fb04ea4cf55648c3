"""The page of a component: what it does, what goes in, what comes out, from the component itself."""

from __future__ import annotations

from typing import Any

import docstring_parser

_PAGE = """\
# {name}

Generated from the component by `make generate`; do not edit.

{description}

```python
from elasticdl_components import {name}
```

Without this package: `kfp.components.load_component_from_file("components/{name}/component.yaml")`.
{uncached}
## Inputs

{inputs}

## Outputs

{outputs}
"""
_UNCACHED = """
Its tasks are run each time, whatever ran before. A file cannot say so: give a task of what is loaded from it
`set_caching_options(False)`, or Kubeflow Pipelines may take the results of an earlier run instead.
"""


def readme(component: Any) -> str:
    """The whole page."""
    spec, name = component.component_spec, component.python_func.__name__
    doc = docstring_parser.parse(component.python_func.__doc__)
    told = {text.arg_name: text.description for text in doc.params}
    told["Output"] = doc.returns.description if doc.returns else None  # KFP's name for the only result
    inputs: list[tuple[str, ...]] = [("input", "type", "default", "meaning"), ("---", "---", "---", "---")]
    for port, its in (spec.inputs or {}).items():
        inputs.append((f"`{port}`", _kind(its), _default(its), told.get(port) or ""))
    outputs: list[tuple[str, ...]] = [("output", "type", "meaning"), ("---", "---", "---")]
    for port, its in (spec.outputs or {}).items():
        outputs.append((f"`{port}`", _kind(its), its.description or told.get(port) or ""))
    return _PAGE.format(
        name=name,
        description=spec.description,
        uncached=_UNCACHED if not component.cached else "",
        inputs=_table(inputs),
        outputs=_table(outputs),
    )


def _kind(port: Any) -> str:
    return str(port.type).removeprefix("system.").partition("@")[0]


def _default(port: Any) -> str:
    if not port.optional:
        return "required"
    return "" if port.default in (None, "") else f"`{port.default}`"


def _table(rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
