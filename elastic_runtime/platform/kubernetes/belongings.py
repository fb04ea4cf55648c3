"""What a job has in its namespace besides pods: found or made, and such that all of it goes with the job.

Whatever is there twice is made once: a request whose answer was lost is made again. What was applied from a
file has no owner, since no file can know one: it is taken away and made anew. So is a secret that holds no
token; nobody has to be allowed to read one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from elastic_runtime.platform.kubernetes.api import Api
from elastic_runtime.platform.kubernetes.errors import AlreadyThere, NotThere
from elastic_runtime.platform.kubernetes.objects import CLUSTER_SPEC_KEY, SPEC_KEY, Blueprint, Owner
from elastic_runtime.rpc.token import make_token

PLACEHOLDER = "a placeholder, for which the job's master puts a token that nobody knows"
"""In a file, in the place of the token: what is in a file is no secret."""


def anchor(api: Api, blueprint: Blueprint) -> Any:
    """The config map that owns the rest."""
    while (found := api.get_config_map(blueprint.name)) is None:
        with suppress(AlreadyThere):
            return api.create_config_map(blueprint.anchor())
    return found


def renew_anchor(api: Api, blueprint: Blueprint) -> None:
    """Let it say of the job what the command says now: its next master, and who asks for it, go by that."""
    wanted = blueprint.anchor().data
    data = {key: wanted.get(key) for key in (SPEC_KEY, CLUSTER_SPEC_KEY)}
    with suppress(NotThere):  # then the next one is made as it should be
        api.patch_config_map(blueprint.name, {"data": data})


def new_token(api: Api, blueprint: Blueprint, owner: Owner) -> str:
    """A new token, in a secret that is the job's own."""
    token = make_token()
    while True:
        try:
            api.create_secret(blueprint.secret(token, owner))
        except AlreadyThere:
            api.delete_secret(blueprint.name)
        else:
            return token


def own_service(api: Api, wanted: Any) -> None:
    """The service, the job's own."""
    found = api.get_service(wanted.metadata.name)
    if found is not None and found.metadata.owner_references:
        return
    if found is not None:
        api.delete_service(wanted.metadata.name)
    with suppress(AlreadyThere):
        api.create_service(wanted)
