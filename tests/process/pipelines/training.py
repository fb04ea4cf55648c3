"""A pipeline of one training step and its exit handler, as a user runs it on this machine.

`python training.py '{"retries": 1, "train": {"job_name": ...}}'`: exits with 1 if the step fails.
"""

import json
import sys

from kfp import dsl, local

from elasticdl_components import clean_up, train

if __name__ == "__main__":
    given = json.loads(sys.argv[1])

    @dsl.pipeline(name="training")
    def pipeline():
        with dsl.ExitHandler(clean_up(job_name=given["train"]["job_name"])):
            train(**given["train"]).set_retry(given["retries"])

    local.init(local.SubprocessRunner(use_venv=False), pipeline_root="outputs")
    pipeline()
