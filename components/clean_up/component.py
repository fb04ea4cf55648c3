"""End what is left of a job."""

from kfp import dsl

from elastic_runtime.steps.job_name import check

from ..image import IMAGE
from ..step import step


@step(cached=False, check=check)
@dsl.component(base_image=IMAGE, install_kfp_package=False)
def clean_up(job_name: str, run_dir: str = "", remove_files: bool = False) -> list[str]:
    """End what is left of a job, as the exit handler of its pipeline; nothing left is no error.

    Args:
        job_name: The job_name that the step train was given.
        run_dir: The run_dir that the step train was given.
        remove_files: Whether the job's journal, logs and report go, too.

    Returns:
        The names of the pods that were left.
    """
    given = dict(locals())
    from elastic_runtime.steps import carry_out
    from elastic_runtime.steps.clean_up import clean_up

    return carry_out(clean_up, given)
