"""Build the image that a job runs."""

from kfp import dsl

from elastic_runtime.steps.build_image import check

from ..image import IMAGE
from ..step import step


@step(cached=False, check=check)
@dsl.component(base_image=IMAGE, install_kfp_package=False)
def build_image(
    repository: str,
    model_zoo: str = "",
    model_zoo_artifact: dsl.Input[dsl.Artifact] = None,
    base_image: str = "elasticdl/elasticdl:1.0.0",  # IMAGE, which is not known where this runs
    requirements: str = "",
    platform: str = "",
    insecure_registries: str = "",
) -> str:
    """Put models, and the packages they need, on top of an image, through its registry's API alone.

    Nothing is run and no rights are needed. The same models on the same base are the same image, so the step
    may run each time: what is there already is not sent again, and steps after it find nothing new. Logins
    are found as Docker finds them: mount a secret of type kubernetes.io/dockerconfigjson as a volume, and
    name its folder in the variable DOCKER_CONFIG.

    Args:
        repository: Where the image goes, `registry.example/team/model`; a tag may follow.
        model_zoo: Folder of model modules, as path or URI; in the image it is /model_zoo. The packages of its
            requirements.txt, if it has one, are installed.
        model_zoo_artifact: The same as an artifact.
        base_image: An image that holds the runtime; default: the one that this step runs in.
        requirements: More packages, as lines of a requirements file. Only wheels are taken, and only what
            the image of this step lacks.
        platform: Of a base image for several platforms, the one to take: `linux/arm64`; default: as here.
        insecure_registries: Those that are spoken to by plain HTTP, separated by commas.

    Returns:
        The name that means this image for ever: `registry.example/team/model@sha256:...`.
    """
    given = dict(locals())
    from elastic_runtime.steps import carry_out
    from elastic_runtime.steps.build_image import build_image

    return carry_out(build_image, given)
