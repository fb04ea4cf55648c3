"""The texts `volume` and `step_resource_request` as the patch of a pod that they ask for.

A template that others use through `templateRef` gets from them parameters and nothing else. Argo evaluates
the expression when it makes the pod; what it takes is the syntax of `--volume` and `--..._resource_request`.
Of a key or a resource that there is not, and of one that is missing, it makes a pod that Kubernetes refuses.

The step's own container goes before Argo's. Each looks once a second: the first whether the step has ended,
the other whether the first has said so. Kubernetes starts them in order, so that saves most of a second.
"""

from __future__ import annotations

import dataclasses

from elastic_runtime.spec.volumes import Volume

_KEYS = [field.name for field in dataclasses.fields(Volume)]


def _pairs(text: str) -> str:
    """What makes `[['a', 'b'], ['c', 'd']]` of `a=b,c=d`."""
    pair = "{let pair = split(#, '=', 2); [trim(pair[0]), trim(join(pair[1:]))]}"
    return f"map(filter(split({text}, ','), trim(#) != ''), {pair})"


def _object(members: str) -> str:
    """What makes an object of `['"a":"b"', '"c":"d"']`; one of `fromPairs` cannot become JSON again."""
    return f"fromJSON('{{' + join({members}, ',') + '}}')"


PATCH = f"""\
{{{{=let mounts = map(filter(split(inputs.parameters.volume, ';'), trim(#, ' ,') != ''),
  fromPairs({_pairs("#")}));
let known = {_KEYS};
let names = {{'gpu': 'nvidia.com/gpu', 'disk': 'ephemeral-storage'}};
let resources = map({_pairs("inputs.parameters.step_resource_request")},
  toJson(names[#[0]] ?? #[0]) + ':' + replace(toJson(#[1]), 'K"', 'k"'));
toJson({{
  '$setElementOrder/containers': [{{'name': 'main'}}, {{'name': 'wait'}}],
  'volumes': map(mounts,
    ({{'name': join(concat(['volume-' + string(#index)], filter(keys(#), # not in known)), ' knows no '),
      'persistentVolumeClaim': 'claim_name' in # ? {{'claimName': #.claim_name}} : nil,
      'hostPath': 'claim_name' in # && 'host_path' not in # ? nil :
        {{'path': #.host_path ?? '', 'type': #.type ?? ''}} }})),
  'containers': [{{
    'name': 'main',
    'resources': {{
      'requests': {_object("resources")},
      'limits': {_object("filter(resources, # contains '/')")}
    }},
    'volumeMounts': map(mounts,
      ({{'name': 'volume-' + string(#index), 'mountPath': #.mount_path ?? '', 'subPath': #.sub_path ?? ''}}))
  }}]
}})}}}}"""
"""Argo's expressions end at two braces."""
