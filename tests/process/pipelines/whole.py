"""A pipeline of every step, as a user writes it: `python whole.py MODEL_ZOO`."""

import sys

from kfp import dsl, local

from elasticdl_components import clean_up, convert, evaluate, predict, train


@dsl.pipeline(name="whole")
def whole(model_zoo: str):
    with dsl.ExitHandler(clean_up(job_name="whole")):
        digits = convert(format="mnist").outputs["dataset"]
        trained = train(
            job_name="whole",
            model_zoo=model_zoo,
            model_def="mnist.mnist_functional_api.custom_model",
            training_dataset=digits,
            training_split="train",
            validation_dataset=digits,
            validation_split="test",
            max_step=30,
        )
        model = trained.outputs["model"]
        evaluate(model=model, dataset=digits, split="test")
        predict(model=model, dataset=digits, split="test", keep="label")


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root="outputs")
    whole(model_zoo=sys.argv[1])
