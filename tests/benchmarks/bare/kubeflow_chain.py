"""A pipeline of plain components that has nothing of ours: each adds one to what the one before has said."""

from typing import Any

from kfp import dsl


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def follow(number: int) -> int:
    return number + 1


def chain(steps: int, image: str) -> Any:
    """So many of them, one after the other."""

    @dsl.pipeline(name=f"chain-of-{steps}")
    def pipeline():
        number = follow(number=0).set_container_image(image)
        for _ in range(steps - 1):
            number = follow(number=number.output).set_container_image(image)

    return pipeline
