"""CIFAR-10 with AllReduce: `python pipelines/cifar10_allreduce.py`.

The workers hold the model themselves and sum their gradients; there is no parameter server. The images are
arrays, `x_train`, `y_train`, `x_test` and `y_test` of one `.npz` file: a sample of 400 that comes with the
model and is soon known by heart, or all of CIFAR-10, with a larger `minibatch_size`.
"""

from pathlib import Path

from hera.workflows import DAG, Workflow
from kfp import dsl

from elasticdl_components import argo, clean_up, convert, evaluate, train
from elasticdl_components.image import IMAGE
from elasticdl_components.store import open_store
from pipelines.command import main

MODEL_ZOO = Path(__file__).parents[1] / "model_zoo"
MODEL = "cifar10.cifar10_functional_api.custom_model"
SAMPLE = "cifar10/data/cifar10_sample.npz"
TRAIN, TEST = (f"image=x_{part}:float,label=y_{part}:int" for part in ("train", "test"))
CLASSES = "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck"


@dsl.pipeline(name="cifar10-allreduce")
def cifar10(  # noqa: PLR0917 - as in all pipelines, by their names
    source: str = f"/model_zoo/{SAMPLE}",
    model_zoo: str = "/model_zoo",
    minibatch_size: int = 8,
    num_epochs: int = 16,
    num_workers: int = 2,
    image_name: str = "",
):
    """CIFAR-10: arrays, RecordIO, training by AllReduce, evaluation."""
    job_name = dsl.PIPELINE_JOB_ID_PLACEHOLDER
    with dsl.ExitHandler(clean_up(job_name=job_name)):
        images = convert(format="arrays", source=source, schema=TRAIN).outputs["dataset"]
        others = convert(format="arrays", source=source, schema=TEST).outputs["dataset"]
        trained = train(
            job_name=job_name,
            model_zoo=model_zoo,
            model_def=MODEL,
            training_dataset=images,
            validation_dataset=others,
            distribution_strategy="AllreduceStrategy",
            minibatch_size=minibatch_size,
            num_minibatches_per_task=5,
            num_epochs=num_epochs,
            num_workers=num_workers,
            image_name=image_name,
        )
        open_store(trained).set_retry(2)
        evaluate(model=trained.outputs["model"], dataset=others, class_names=CLASSES)


def cifar10_on_argo() -> Workflow:
    """The same as a workflow; `folder` is where on the volume it writes."""
    parameters = {
        "source": f"/model_zoo/{SAMPLE}",
        "model_zoo": "/model_zoo",
        "minibatch_size": 8,
        "num_epochs": 16,
        "num_workers": 2,
        "image_name": IMAGE,
        "volume": "claim_name=data,mount_path=/data",
        "folder": "/data",
    }
    given = {name: f"{{{{workflow.parameters.{name}}}}}" for name in parameters}
    pods = {name: given[name] for name in ("image_name", "volume")}
    arrays = {"format": "arrays", "source": given["source"], **pods}
    folder = f"{given['folder']}/{{{{workflow.name}}}}"
    with Workflow(
        generate_name="cifar10-allreduce-", entrypoint="cifar10", on_exit="at-the-end", arguments=parameters
    ) as workflow:
        with DAG(name="cifar10"):
            data = argo.convert(name="convert", schema=TRAIN, output=f"{folder}/train", **arrays)
            more = argo.convert(name="convert-2", schema=TEST, output=f"{folder}/test", **arrays)
            others = more.get_artifact("dataset")
            trained = argo.train(
                model_zoo=given["model_zoo"],
                model_def=MODEL,
                training_dataset=data.get_artifact("dataset"),
                validation_dataset=others,
                distribution_strategy="AllreduceStrategy",
                minibatch_size=given["minibatch_size"],
                num_minibatches_per_task=5,
                num_epochs=given["num_epochs"],
                num_workers=given["num_workers"],
                **pods,
            )
            model = trained.get_artifact("model")
            [data, more] >> trained >> argo.evaluate(model=model, dataset=others, class_names=CLASSES, **pods)
        with DAG(name="at-the-end"):
            argo.clean_up(**pods)
    return workflow


if __name__ == "__main__":
    here = {"source": str(MODEL_ZOO / SAMPLE), "model_zoo": str(MODEL_ZOO)}
    raise SystemExit(main(cifar10, argo=cifar10_on_argo, here=here))
