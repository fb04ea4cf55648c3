"""Your own models in an image of their own: `python pipelines/own_image.py --param repository=...`.

The folder `model_zoo` is put on top of `base_image`, and the image pushed to `repository`. Training and
evaluation run in this very image, by its digest. The secret `login_secret`, if there is one, opens the
registry: docs/images.md. Here steps are processes, and they read the folder; the image is built all the same.
"""

from pathlib import Path

from hera.workflows import DAG, Parameter, Workflow
from kfp import dsl, kubernetes

from elasticdl_components import argo, build_image, clean_up, convert, evaluate, train
from elasticdl_components.image import IMAGE
from elasticdl_components.store import open_store
from pipelines.command import main

MODEL_ZOO = str(Path(__file__).parents[1] / "model_zoo")
MODEL = "mnist.mnist_functional_api.custom_model"
HERE = {"model_zoo": MODEL_ZOO, "train.model_zoo": "{model_zoo}", "train.image_name": ""}
REPOSITORY = "Where the image goes, registry.example/team/model."
LOGINS = "/home/elasticdl/.docker"  # where they are looked for in the image of the step, and need no variable


@dsl.pipeline(name="own-image")
def own_image(  # noqa: PLR0917 - KFP gives them by their places
    repository: str,
    source: str = "",
    model_zoo: str = "/model_zoo",
    model_def: str = MODEL,
    base_image: str = IMAGE,
    insecure_registries: str = "",
    login_secret: str = "registry-login",  # noqa: S107 - a name
    num_epochs: int = 2,
    num_workers: int = 2,
):
    """MNIST, with your model: RecordIO, an image with the model, elastic training and evaluation in it.

    Args:
        repository: Where the image goes, registry.example/team/model.
    """
    job_name = dsl.PIPELINE_JOB_ID_PLACEHOLDER
    with dsl.ExitHandler(clean_up(job_name=job_name)):
        digits = convert(format="mnist", source=source).outputs["dataset"]
        image = build_image(
            repository=repository,
            model_zoo=model_zoo,
            base_image=base_image,
            insecure_registries=insecure_registries,
        )
        kubernetes.use_secret_as_volume(image, login_secret, mount_path=LOGINS, optional=True)
        trained = train(
            job_name=job_name,
            model_zoo="/model_zoo",
            model_def=model_def,
            training_dataset=digits,
            training_split="train",
            validation_split="test",
            evaluation_steps=50,
            num_epochs=num_epochs,
            num_workers=num_workers,
            image_name=image.output,
        )
        open_store(trained).set_retry(2).set_container_image(image.output)
        evaluated = evaluate(model=trained.outputs["model"], dataset=digits, split="test")
        evaluated.set_container_image(image.output)


def own_image_on_argo() -> Workflow:
    """The same as a workflow; steps before run in `base_image`. `folder` is where on the volume it writes."""
    parameters = {
        "source": "",
        "model_zoo": "/model_zoo",
        "model_def": MODEL,
        "base_image": IMAGE,
        "insecure_registries": "",
        "login_secret": "registry-login",
        "num_epochs": 2,
        "num_workers": 2,
        "volume": "claim_name=data,mount_path=/data",
        "folder": "/data",
    }
    given = {name: f"{{{{workflow.parameters.{name}}}}}" for name in ("repository", *parameters)}
    pods = {"image_name": given["base_image"], "volume": given["volume"]}
    with Workflow(
        generate_name="own-image-",
        entrypoint="own-image",
        on_exit="at-the-end",
        arguments=[Parameter(name="repository", description=REPOSITORY), parameters],
    ) as workflow:
        with DAG(name="own-image"):
            data = argo.convert(
                format="mnist",
                source=given["source"],
                output=f"{given['folder']}/{{{{workflow.name}}}}",
                **pods,
            )
            digits = data.get_artifact("dataset")
            image = argo.build_image(
                repository=given["repository"],
                model_zoo=given["model_zoo"],
                base_image=given["base_image"],
                insecure_registries=given["insecure_registries"],
                login_secret=given["login_secret"],
                **pods,
            )
            in_it = {"image_name": image.get_parameter("image"), "volume": given["volume"]}
            trained = argo.train(
                model_zoo="/model_zoo",
                model_def=given["model_def"],
                training_dataset=digits,
                training_split="train",
                validation_split="test",
                evaluation_steps=50,
                num_epochs=given["num_epochs"],
                num_workers=given["num_workers"],
                **in_it,
            )
            model = trained.get_artifact("model")
            [data, image] >> trained >> argo.evaluate(model=model, dataset=digits, split="test", **in_it)
        with DAG(name="at-the-end"):
            argo.clean_up(**pods)
    return workflow


if __name__ == "__main__":
    raise SystemExit(main(own_image, argo=own_image_on_argo, here=HERE))
