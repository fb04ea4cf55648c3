"""Adult census from a table to predictions: `python pipelines/census.py`.

The table becomes records of the types that its schema says; a wide and deep model is trained on two
parameter servers, then judged and used on people whom it has not seen. The source is a sample that comes with
the model.
"""

from pathlib import Path

from hera.workflows import DAG, Workflow
from kfp import dsl

from elasticdl_components import argo, clean_up, convert, evaluate, predict, train
from elasticdl_components.image import IMAGE
from elasticdl_components.store import open_store
from pipelines.command import main

MODEL_ZOO = Path(__file__).parents[1] / "model_zoo"
MODEL = "census.census_wide_and_deep.custom_model"
SAMPLE = "census/data/adult_sample.csv"
SCHEMA = (
    "age:int,workclass:string,education:string,education_num=education-num:int,"
    "marital_status=marital-status:string,occupation:string,relationship:string,race:string,sex:string,"
    "capital_gain=capital-gain:int,capital_loss=capital-loss:int,hours_per_week=hours-per-week:int,"
    "native_country=native-country:string,income:string"
)
SPLIT = "train=0.8,test=0.2"
CLASSES = "up to 50K,above 50K"


@dsl.pipeline(name="census")
def census(  # noqa: PLR0917 - as in all pipelines, by their names
    source: str = f"/model_zoo/{SAMPLE}",
    model_zoo: str = "/model_zoo",
    num_epochs: int = 3,
    num_workers: int = 2,
    num_ps_pods: int = 2,
    image_name: str = "",
):
    """Adult census: a table, RecordIO, wide and deep on parameter servers, evaluation, prediction."""
    job_name = dsl.PIPELINE_JOB_ID_PLACEHOLDER
    with dsl.ExitHandler(clean_up(job_name=job_name)):
        people = convert(format="csv", source=source, schema=SCHEMA, split=SPLIT).outputs["dataset"]
        trained = train(
            job_name=job_name,
            model_zoo=model_zoo,
            model_def=MODEL,
            training_dataset=people,
            training_split="train",
            validation_split="test",
            num_epochs=num_epochs,
            num_workers=num_workers,
            num_ps_pods=num_ps_pods,
            image_name=image_name,
        )
        open_store(trained).set_retry(2)
        model = trained.outputs["model"]
        evaluate(model=model, dataset=people, split="test", class_names=CLASSES)
        predict(model=model, dataset=people, split="test", keep="income")


def census_on_argo() -> Workflow:
    """The same as a workflow; `folder` is where on the volume it writes."""
    parameters = {
        "source": f"/model_zoo/{SAMPLE}",
        "model_zoo": "/model_zoo",
        "num_epochs": 3,
        "num_workers": 2,
        "num_ps_pods": 2,
        "image_name": IMAGE,
        "volume": "claim_name=data,mount_path=/data",
        "folder": "/data",
    }
    given = {name: f"{{{{workflow.parameters.{name}}}}}" for name in parameters}
    pods = {name: given[name] for name in ("image_name", "volume")}
    with Workflow(
        generate_name="census-", entrypoint="census", on_exit="at-the-end", arguments=parameters
    ) as workflow:
        with DAG(name="census"):
            data = argo.convert(
                format="csv",
                source=given["source"],
                schema=SCHEMA,
                split=SPLIT,
                output=f"{given['folder']}/{{{{workflow.name}}}}",
                **pods,
            )
            people = data.get_artifact("dataset")
            trained = argo.train(
                model_zoo=given["model_zoo"],
                model_def=MODEL,
                training_dataset=people,
                training_split="train",
                validation_split="test",
                num_epochs=given["num_epochs"],
                num_workers=given["num_workers"],
                num_ps_pods=given["num_ps_pods"],
                **pods,
            )
            model = trained.get_artifact("model")
            judged = argo.evaluate(model=model, dataset=people, split="test", class_names=CLASSES, **pods)
            used = argo.predict(model=model, dataset=people, split="test", keep="income", **pods)
            data >> trained >> [judged, used]
        with DAG(name="at-the-end"):
            argo.clean_up(**pods)
    return workflow


if __name__ == "__main__":
    here = {"source": str(MODEL_ZOO / SAMPLE), "model_zoo": str(MODEL_ZOO)}
    raise SystemExit(main(census, argo=census_on_argo, here=here))
