"""What `elasticdl zoo init` writes: each of its options is found in the Dockerfile or beside it."""

import subprocess
import sys
import zipfile

import pytest

import elastic_runtime
from elastic_runtime.cli.main import main
from elastic_runtime.image.package import pack
from elastic_runtime.image.recipe import digest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The user's folder, with a model in it."""
    model = tmp_path / "model_zoo" / "mnist" / "model.py"
    model.parent.mkdir(parents=True)
    model.write_text("def custom_model(): ...\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*options):
    with pytest.raises(SystemExit) as end:
        main(["zoo", "init", "--model_zoo=model_zoo", *options])
    return end.value.code


def dockerfile(folder):
    return (folder / "Dockerfile").read_text()


def test_the_models_come_last_and_anybody_may_read_them(folder):
    assert init() == 0
    lines = dockerfile(folder).splitlines()
    assert lines[-3:] == [
        'COPY ["model_zoo", "/model_zoo"]',
        "RUN chmod -R a+rX /model_zoo",
        "USER 1000",
    ]


def test_without_a_base_image_python_is_the_base(folder):
    init()
    assert "\nFROM python:3.11-slim-bookworm\n" in dockerfile(folder)


def test_the_base_image_can_be_chosen(folder):
    init("--base_image=elasticdl:dev_allreduce")
    assert "\nFROM elasticdl:dev_allreduce\n" in dockerfile(folder)


def test_an_additional_index_is_known_to_every_pip_of_the_build_and_only_there(folder):
    init("--extra_pypi_index=http://packages.example/simple")
    text = dockerfile(folder)
    assert text.index('ARG PIP_EXTRA_INDEX_URL="http://packages.example/simple"') < text.index("pip install")
    init()
    assert "INDEX" not in dockerfile(folder)


def test_what_the_models_need_is_installed_below_them(folder):
    (folder / "model_zoo" / "requirements.txt").write_text("tabulate\n")
    init()
    text = dockerfile(folder)
    assert "model_zoo/requirements.txt" in text
    assert text.index("pip install -r /opt/elasticdl/zoo/model_zoo.txt") < text.index('COPY ["model_zoo",')


def test_tensorflow_is_installed_only_where_the_base_has_none(folder):
    init()
    assert "tensorflow" not in (folder / ".elasticdl" / "requirements.txt").read_text()
    assert (
        '(python -c "import tensorflow" 2>/dev/null || python -m pip install "tensorflow-cpu'
        in dockerfile(folder)
    )


def test_this_very_program_goes_into_the_image(folder):
    init()
    (wheel,) = (folder / ".elasticdl" / "wheels").iterdir()
    done = subprocess.run(
        [sys.executable, "-c", "import elastic_runtime as it; print(it.__file__, it.__version__)"],
        env={"PYTHONPATH": str(wheel), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [f"{wheel}/elastic_runtime/__init__.py", elastic_runtime.__version__]


def test_wheels_of_a_local_folder_take_its_place(folder):
    (folder / "build").mkdir()
    wheel = pack(folder / "build").rename(folder / "build" / "elasticdl-9.9-py3-none-any.whl")
    with zipfile.ZipFile(folder / "build" / "other-1.0-py3-none-any.whl", "w"):
        pass
    init("--local_pkg_dir=./build")
    there = {path.name for path in (folder / ".elasticdl" / "wheels").iterdir()}
    assert there == {wheel.name, "other-1.0-py3-none-any.whl"}


def test_the_cluster_spec_gets_its_place_in_the_image(folder):
    (folder / "spec.py").write_text("cluster = None\n")
    init("--cluster_spec", "spec.py")
    assert (folder / ".elasticdl" / "cluster_spec" / "spec.py").read_text() == "cluster = None\n"
    assert "COPY .elasticdl/cluster_spec /cluster_spec\n" in dockerfile(folder)


def test_init_again_replaces_what_it_wrote(folder):
    (folder / "spec.py").touch()
    init("--cluster_spec=spec.py", "--base_image=elasticdl:first")
    assert init() == 0
    assert "elasticdl:first" not in dockerfile(folder)
    assert not (folder / ".elasticdl" / "cluster_spec").exists()


def test_a_dockerfile_of_the_users_own_is_not_touched(folder, capsys):
    (folder / "Dockerfile").write_text("FROM scratch\n")
    assert init() == 2
    assert dockerfile(folder) == "FROM scratch\n"
    assert "Dockerfile: is not one of ours, and stays (move it away)" in capsys.readouterr().err
    assert not (folder / ".elasticdl").exists()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--model_zoo=nowhere", "--model_zoo: there is no folder nowhere"),
        ("--model_zoo=..", "is outside"),
        ("--local_pkg_dir=model_zoo", "--local_pkg_dir: there is no wheel in model_zoo"),
        ("--cluster_spec=nowhere.py", "--cluster_spec: there is no file nowhere.py"),
    ],
)
def test_what_is_not_there_is_named_and_nothing_is_written(folder, capsys, option, words):
    assert init(option) == 2
    assert words in capsys.readouterr().err
    assert not (folder / "Dockerfile").exists()


def test_the_same_content_has_the_same_hash_and_any_change_another(folder):
    init()
    first = digest(folder)
    init()
    assert digest(folder) == first
    (folder / "model_zoo" / "mnist" / "model.py").write_text("def custom_model(): return 1\n")
    assert digest(folder) != first
