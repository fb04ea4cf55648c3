"""The texts `volume` and `step_resource_request` as the patch of a pod that they ask for.

A template that others use through `templateRef` gets from them parameters and nothing else. Argo evaluates
the expression when it makes the pod; what it takes is the syntax of `--volume` and `--..._resource_request`.
"""

from __future__ import annotations


def _fields(text: str) -> str:
    """What makes an object of `a=b,c=d`."""
    pair = """'"' + replace(trim(#), '=', '":"') + '"'"""
    return f"fromJSON('{{' + join(map(filter(split({text}, ','), trim(#) != ''), {pair}), ',') + '}}')"


_MOUNTS = f"map(filter(split(inputs.parameters.volume, ';'), trim(#) != ''), {_fields('#')})"
PATCH = f"""\
{{{{=toJson({{
  'volumes': map({_MOUNTS},
    ({{'name': 'volume-' + string(#index),
      'persistentVolumeClaim': 'claim_name' in # ? {{'claimName': #.claim_name}} : nil,
      'hostPath': 'host_path' in # ? {{'path': #.host_path, 'type': #.type ?? ''}} : nil}})),
  'containers': [{{
    'name': 'main',
    'resources': {{'requests': {_fields("inputs.parameters.step_resource_request")}}},
    'volumeMounts': map({_MOUNTS},
      ({{'name': 'volume-' + string(#index), 'mountPath': #.mount_path, 'subPath': #.sub_path ?? ''}}))
  }}]
}})}}}}"""
"""Argo's expressions have no names for parts, and end at two braces."""
