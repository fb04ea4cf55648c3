"""`elasticdl zoo`: an image that holds your models, from a Dockerfile to the registry."""

from __future__ import annotations

from pathlib import Path

import click

from elastic_runtime.errors import InputError

_FOLDER = click.Path(path_type=Path)


@click.group(invoke_without_command=True)
@click.pass_context
def zoo(ctx: click.Context) -> None:
    """Build and push the image that holds your models."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@zoo.command()
@click.option("--base_image", default="", help="Image to build on. [python:3.11-slim-bookworm]")
@click.option("--model_zoo", default=".", show_default=True, type=_FOLDER, help="Folder of model modules.")
@click.option("--extra_pypi_index", default="", help="Additional package index.")
@click.option("--local_pkg_dir", type=_FOLDER, help="Folder of wheels to install instead of this program.")
@click.option("--cluster_spec", type=_FOLDER, help="File that jobs are given by --cluster_spec.")
def init(
    base_image: str,
    model_zoo: Path,
    extra_pypi_index: str,
    local_pkg_dir: Path | None,
    cluster_spec: Path | None,
) -> None:
    """Write a Dockerfile into this folder."""
    from elastic_runtime.image.recipe import BESIDE, Recipe, write

    recipe = Recipe(
        model_zoo,
        base_image=base_image,
        extra_pypi_index=extra_pypi_index,
        local_pkg_dir=local_pkg_dir,
        cluster_spec=cluster_spec,
    )
    dockerfile = write(recipe, Path("."))
    click.echo(f"{dockerfile} and {BESIDE}/ are written; next: elasticdl zoo build --image=NAME:TAG .")


@zoo.command()
@click.argument("path", default=".", type=_FOLDER)
@click.option("--image", required=True, help="What the image is to be called.")
def build(path: Path, image: str) -> None:
    """Build the Dockerfile in the folder PATH."""
    from elastic_runtime.image.builder import find_builder

    dockerfile = path / "Dockerfile"
    if not dockerfile.is_file():
        raise InputError(f"there is no {dockerfile}", remedy="elasticdl zoo init writes one")
    find_builder().build(dockerfile=dockerfile, context=path, tag=image)
    click.echo(f"{image} is built; next: elasticdl zoo push {image}, or train with --image_name={image}")


@zoo.command()
@click.option("--base_image", required=True, help="Image with the runtime, to put the models on.")
@click.option("--repository", required=True, help="Where to push it: REGISTRY/NAME or REGISTRY/NAME:TAG.")
@click.option("--model_zoo", default=".", show_default=True, help="Folder of model modules, or its URI.")
@click.option("--requirements", type=_FOLDER, help="File of packages to add, besides the folder's own.")
@click.option("--platform", default="", help="Of an image for several, the one to take: linux/arm64.")
@click.option("--insecure_registries", default="", help="Those of plain HTTP, separated by commas.")
def append(
    *,
    base_image: str,
    repository: str,
    model_zoo: str,
    requirements: Path | None,
    platform: str,
    insecure_registries: str,
) -> None:
    """Push an image with your models on top of one that is in a registry; needs no builder."""
    from elastic_runtime.observe import log
    from elastic_runtime.steps.build_image import build_image

    log.set_up()
    if requirements and not requirements.is_file():
        raise InputError(f"there is no file {requirements}", where="--requirements")
    image = build_image(
        base_image=base_image,
        repository=repository,
        model_zoo=model_zoo,
        requirements=f"-r {requirements.absolute()}" if requirements else "",
        platform=platform,
        insecure_registries=insecure_registries,
    )
    click.echo(image)


@zoo.command()
@click.argument("image")
def push(image: str) -> None:
    """Push IMAGE to the registry that its name begins with."""
    from elastic_runtime.image.builder import find_builder

    click.echo(find_builder().push(image))
