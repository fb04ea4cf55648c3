"""MNIST from its images to an evaluated model: `python pipelines/mnist.py`.

Without a source the images are the small sample that comes with this package.
"""

from pathlib import Path

from hera.workflows import DAG, Workflow
from kfp import dsl

from elasticdl_components import argo, clean_up, convert, evaluate, train
from elasticdl_components.image import IMAGE
from elasticdl_components.store import open_store
from pipelines.command import main

MODEL_ZOO = str(Path(__file__).parents[1] / "model_zoo")
MODEL = "mnist.mnist_functional_api.custom_model"


@dsl.pipeline(name="mnist")
def mnist(
    source: str = "",
    model_zoo: str = "/model_zoo",
    num_epochs: int = 2,
    num_workers: int = 2,
    image_name: str = "",
):
    """MNIST: images, RecordIO, elastic training, evaluation."""
    job_name = dsl.PIPELINE_JOB_ID_PLACEHOLDER
    with dsl.ExitHandler(clean_up(job_name=job_name)):
        digits = convert(format="mnist", source=source).outputs["dataset"]
        trained = train(
            job_name=job_name,
            model_zoo=model_zoo,
            model_def=MODEL,
            training_dataset=digits,
            training_split="train",
            validation_split="test",
            evaluation_steps=50,
            num_epochs=num_epochs,
            num_workers=num_workers,
            image_name=image_name,
        )
        open_store(trained).set_retry(2)
        evaluate(model=trained.outputs["model"], dataset=digits, split="test")


def mnist_on_argo() -> Workflow:
    """The same as a workflow; `folder` is where on the volume it writes."""
    parameters = {
        "source": "",
        "model_zoo": "/model_zoo",
        "num_epochs": 2,
        "num_workers": 2,
        "image_name": IMAGE,
        "volume": "claim_name=data,mount_path=/data",
        "folder": "/data",
    }
    given = {name: f"{{{{workflow.parameters.{name}}}}}" for name in parameters}
    pods = {name: given[name] for name in ("image_name", "volume")}
    with Workflow(
        generate_name="mnist-", entrypoint="mnist", on_exit="at-the-end", arguments=parameters
    ) as workflow:
        with DAG(name="mnist"):
            data = argo.convert(
                format="mnist",
                source=given["source"],
                output=f"{given['folder']}/{{{{workflow.name}}}}",
                **pods,
            )
            digits = data.get_artifact("dataset")
            trained = argo.train(
                model_zoo=given["model_zoo"],
                model_def=MODEL,
                training_dataset=digits,
                training_split="train",
                validation_split="test",
                evaluation_steps=50,
                num_epochs=given["num_epochs"],
                num_workers=given["num_workers"],
                **pods,
            )
            model = trained.get_artifact("model")
            data >> trained >> argo.evaluate(model=model, dataset=digits, split="test", **pods)
        with DAG(name="at-the-end"):
            argo.clean_up(**pods)
    return workflow


if __name__ == "__main__":
    raise SystemExit(main(mnist, argo=mnist_on_argo, here={"model_zoo": MODEL_ZOO}))
