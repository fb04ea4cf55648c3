"""Three trainings side by side: `python pipelines/sweep.py`.

Models of three sizes are trained on the same people, and the best is named. Each training has a priority of
its own for its workers (manifests/elasticdl-priorities.yaml). Where there is not room for all, every one
begins with the workers it gets: none of the large model's has to give way, of the medium's every second, of
the small's all; and whoever is done leaves its room to the others. Parameter servers, without which workers
can do nothing, give way to nobody, nor do steps on Argo. A task of KFP can have no priority: its step, a pod
like any without one, may have to give way to a worker that is `high`, unless the cluster has a default class
that is as high (docs/components.md).

Priorities are for pods. On KFP that takes `image_name`; without, and here, workers are processes of their
step. Here one training follows the other.
"""

from hera.workflows import DAG, Workflow, script
from kfp import dsl

from elasticdl_components import argo, clean_up, convert, train
from elasticdl_components.image import IMAGE
from elasticdl_components.store import open_store
from pipelines.census import MODEL, MODEL_ZOO, SAMPLE, SCHEMA, SPLIT
from pipelines.command import main

TRAININGS = {  # the model's size, and which of the workers are `high`: the others give way
    "small": ("embedding=2; hidden=8", "low"),
    "medium": ("embedding=8; hidden=64", "0.5"),
    "large": ("embedding=32; hidden=512", "high"),
}


@dsl.component(base_image=IMAGE, install_kfp_package=False)
def compare(table: dsl.Output[dsl.Markdown], small: float, medium: float, large: float) -> str:
    """The name of the best, and a table of all."""
    found = {"small": small, "medium": medium, "large": large}
    with open(table.path, "w") as page:
        page.write("| model | accuracy |\n|---|---:|\n")
        page.writelines(f"| {name} | {accuracy:.4f} |\n" for name, accuracy in found.items())
    return max(found, key=found.__getitem__)


@dsl.pipeline(name="training")
def training(  # noqa: PLR0917 - KFP gives them by their places
    run: str,
    name: str,
    size: str,
    priority: str,
    people: dsl.Input[dsl.Dataset],
    model_zoo: str,
    num_epochs: int,
    num_workers: int,
    image_name: str,
) -> float:
    """One of them, and what came of it."""
    trained = train(
        job_name=f"{name}-{run}",
        model_zoo=model_zoo,
        model_def=MODEL,
        model_params=size,
        training_dataset=people,
        training_split="train",
        validation_split="test",
        num_epochs=num_epochs,
        num_workers=num_workers,
        image_name=image_name,
        worker_pod_priority=priority,
        ps_pod_priority="high",
    )
    open_store(trained).set_retry(2)
    best: float = trained.outputs["best_metric"]
    return best


@dsl.pipeline(name="clean-up-all")
def clean_up_all(run: str):
    """What the exit handler does."""
    for name in TRAININGS:
        clean_up(job_name=f"{name}-{run}")


@dsl.pipeline(name="sweep")
def sweep(
    source: str = f"/model_zoo/{SAMPLE}",
    model_zoo: str = "/model_zoo",
    num_epochs: int = 2,
    num_workers: int = 2,
    image_name: str = "",
):
    """Adult census: three sizes of a model trained side by side, with different priorities."""
    run = dsl.PIPELINE_JOB_ID_PLACEHOLDER
    with dsl.ExitHandler(clean_up_all(run=run)):
        people = convert(format="csv", source=source, schema=SCHEMA, split=SPLIT).outputs["dataset"]
        found = {
            name: training(
                run=run,
                name=name,
                size=size,
                priority=priority,
                people=people,
                model_zoo=model_zoo,
                num_epochs=num_epochs,
                num_workers=num_workers,
                image_name=image_name,
            ).output
            for name, (size, priority) in TRAININGS.items()
        }
        compare(**found)


@script(name="compare", image="{{workflow.parameters.image_name}}")
def compare_on_argo(small: float, medium: float, large: float):
    """All accuracies, and as the last line, which is the step's result, the name of the best."""
    import sys

    found = {"small": small, "medium": medium, "large": large}
    sys.stdout.writelines(f"{name}: {accuracy:.4f}\n" for name, accuracy in found.items())
    best = max(found, key=found.__getitem__)
    sys.stdout.write(f"{best} is the best, with an accuracy of {found[best]:.4f}\n")


def sweep_on_argo() -> Workflow:
    """The same as a workflow; `folder` is where on the volume it writes."""
    parameters = {
        "source": f"/model_zoo/{SAMPLE}",
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
        generate_name="sweep-",
        entrypoint="sweep",
        on_exit="at-the-end",
        arguments=parameters,
        pod_priority_class_name="high",
    ) as workflow:
        with DAG(name="sweep"):
            data = argo.convert(
                format="csv",
                source=given["source"],
                schema=SCHEMA,
                split=SPLIT,
                output=f"{given['folder']}/{{{{workflow.name}}}}",
                **pods,
            )
            people = data.get_artifact("dataset")
            trained = {
                name: argo.train(
                    name=name,
                    job_name=f"{{{{workflow.name}}}}-{name}",
                    model_zoo=given["model_zoo"],
                    model_def=MODEL,
                    model_params=size,
                    training_dataset=people,
                    training_split="train",
                    validation_split="test",
                    num_epochs=given["num_epochs"],
                    num_workers=given["num_workers"],
                    worker_pod_priority=priority,
                    ps_pod_priority="high",
                    **pods,
                )
                for name, (size, priority) in TRAININGS.items()
            }
            found = {name: task.get_parameter("best_metric") for name, task in trained.items()}
            data >> [*trained.values()] >> compare_on_argo(arguments=found)
        with DAG(name="at-the-end"):
            for name in TRAININGS:
                argo.clean_up(name=f"clean-up-{name}", job_name=f"{{{{workflow.name}}}}-{name}", **pods)
    return workflow


if __name__ == "__main__":
    here = {"source": str(MODEL_ZOO / SAMPLE), "model_zoo": str(MODEL_ZOO)}
    raise SystemExit(main(sweep, argo=sweep_on_argo, here=here))
