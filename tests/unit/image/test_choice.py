"""The image of a job: found or built by the rule, and the job's paths as they are inside."""

import re

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.image.choice import image_for
from elastic_runtime.spec.arguments import parse

DIGEST = "sha256:" + "b2" * 32
# A buildah that works: it keeps what it was asked, and the Dockerfile it was given.
BUILDAH = f"""#!/bin/sh
echo "$*" >>"$ASKED"
[ "$2" = --digestfile ] && echo {DIGEST} >"$3"
[ "$1" = build ] || exit 0
while [ "$1" != -f ]; do shift; done
/bin/cp "$2" "$ASKED.Dockerfile"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    for name in ("mnist/mnist_api", "subclass/subclass"):
        path = tmp_path / "model_zoo" / f"{name}.py"
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "spec.py").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """What the builder was asked to do, and the Dockerfile."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "buildah").write_text(BUILDAH)
    (programs / "buildah").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))

    def read():
        told = (tmp_path / "asked").read_text().splitlines()[1:]
        return told, (tmp_path / "asked.Dockerfile").read_text()

    return read


def spec(*options, model_def="mnist.mnist_api.custom_model"):
    words = ["--job_name=j", "--training_data=/data", "--platform=kubernetes", f"--model_def={model_def}"]
    return parse("train", [*words, *options]).spec


def chosen(*options, **more):
    return image_for(spec(*options, **more))


def test_a_named_image_is_taken_as_it_is():
    built = chosen("--image_name=elasticdl:mnist_ps", "--model_zoo=model_zoo")
    assert built.image == "elasticdl:mnist_ps"
    assert (built.model_zoo, built.model_def) == ("/model_zoo", "mnist.mnist_api.custom_model")
    assert built.said == "the job runs the image elasticdl:mnist_ps, as --image_name says"


def test_a_model_zoo_inside_the_image_stays_where_it_is():
    assert chosen("--image_name=elasticdl:mine", "--model_zoo=/models").model_zoo == "/models"


@pytest.mark.parametrize("option", ["--image_base", "--base_image"])
def test_a_base_with_a_model_zoo_that_is_not_here_is_an_image_that_holds_it(option):
    built = chosen(f"{option}=reg.docker.com/user/elasticdl:mnist", "--model_zoo=/model_zoo")
    assert (built.image, built.model_zoo) == ("reg.docker.com/user/elasticdl:mnist", "/model_zoo")


@pytest.mark.parametrize("prefix", ["reg.docker.com/user", "reg.docker.com/user/"])
def test_with_a_repository_the_image_is_built_and_pushed_there(asked, prefix):
    built = chosen("--image_base=elasticdl:ci", f"--docker_image_prefix={prefix}", "--model_zoo=./model_zoo")
    (build, push), dockerfile = asked()
    tag = re.search(r"-t (\S+)", build)[1]
    assert re.fullmatch(r"reg\.docker\.com/user/elasticdl:[0-9a-f]{12}", tag)
    assert push.endswith(tag)
    assert "\nFROM elasticdl:ci\n" in dockerfile
    assert built.image == f"reg.docker.com/user/elasticdl@{DIGEST}"
    assert tag in built.said
    assert "pushed" in built.said


def test_without_a_repository_it_is_built_and_stays_here(asked):
    built = chosen("--base_image=elasticdl:ci", "--model_zoo=model_zoo")
    (build,), _ = asked()
    assert re.fullmatch(r"elasticdl:[0-9a-f]{12}", built.image)
    assert built.image in build
    assert "not pushed" in built.said


def test_what_would_be_built_is_told_without_a_builder(folder):
    options = ("--docker_image_prefix=gcr.io/project", "--model_zoo=model_zoo")
    told = image_for(spec(*options), build=False)
    assert re.fullmatch(r"gcr\.io/project/elasticdl:[0-9a-f]{12}", told.image)
    assert f"{told.image}, still to be built from model_zoo" in told.said


def test_the_same_models_make_the_same_name(asked, folder):
    first = chosen("--base_image=elasticdl:ci", "--model_zoo=model_zoo").image
    assert chosen("--base_image=elasticdl:ci", "--model_zoo=model_zoo").image == first
    (folder / "model_zoo" / "mnist" / "mnist_api.py").write_text("changed\n")
    assert chosen("--base_image=elasticdl:ci", "--model_zoo=model_zoo").image != first


@pytest.mark.parametrize("model_def", ["model_zoo/subclass", "model_zoo/subclass/"])
def test_a_folder_as_model_brings_the_folder_it_is_in(asked, model_def):
    built = chosen("--docker_image_prefix=gcr.io/project", model_def=model_def)
    assert (built.model_zoo, built.model_def) == ("/model_zoo", "subclass/subclass.py")
    assert "built from model_zoo on " in built.said


def test_the_cluster_spec_goes_into_the_image(asked):
    chosen("--base_image=elasticdl:ci", "--model_zoo=model_zoo", "--cluster_spec=spec.py")
    assert "COPY .elasticdl/cluster_spec /cluster_spec" in asked()[1]


def test_a_model_outside_the_zoo_is_refused_before_anything_is_built(asked, folder):
    (folder / "elsewhere.py").touch()
    with pytest.raises(InputError, match=r"elsewhere\.py is not in the model zoo model_zoo"):
        chosen("--base_image=elasticdl:ci", "--model_zoo=model_zoo", model_def="elsewhere.py")


def test_an_image_as_it_is_and_one_to_build_contradict_each_other():
    with pytest.raises(InputError, match="leave one of them out"):
        chosen("--image_name=a", "--base_image=b", "--model_zoo=model_zoo")


def test_without_any_image_both_ways_are_named():
    with pytest.raises(InputError, match="--image_name, or have it built by --docker_image_repository"):
        chosen("--model_zoo=model_zoo")
