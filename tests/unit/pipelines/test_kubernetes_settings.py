"""What kfp-kubernetes sets on a task comes along with a pipeline that our command has changed."""

import yaml
from kfp import dsl, kubernetes

from elasticdl_components import train
from pipelines.packages import changes
from pipelines.packages.kfp import KfpPackage


@dsl.pipeline(name="mounted")
def mounted(claim: str = "data") -> None:
    trained = train(model_def="a.b", training_data="/data/train", image_name="registry/model:1")
    kubernetes.mount_pvc(trained, pvc_name=claim, mount_path="/data")
    kubernetes.use_secret_as_volume(trained, secret_name="login", mount_path="/login")


def test_volumes_that_are_mounted_on_the_training_are_in_what_is_submitted() -> None:
    package = KfpPackage(mounted)
    changes.apply(changes.read(["claim=others"], ["train.num_workers=3"]), [package])
    spec, platform = yaml.safe_load_all(package.text())
    of_the_task = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["exec-train"]
    assert [mount["mountPath"] for mount in of_the_task["pvcMount"]] == ["/data"]
    assert [secret["mountPath"] for secret in of_the_task["secretAsVolume"]] == ["/login"]
    assert spec["root"]["inputDefinitions"]["parameters"]["claim"]["defaultValue"] == "others"
    passed = spec["components"]["comp-train"]["taskConfigPassthroughs"]
    assert "KUBERNETES_VOLUMES" in {each["field"] for each in passed}
