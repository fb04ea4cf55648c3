"""The images users get, and `elasticdl zoo`, by a real builder and against real registries."""

from __future__ import annotations

import functools
import http.server
import json
import socket
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.kit import builder
from tests.cluster.kit.builder import Images, buildah
from tests.cluster.kit.cluster import PATIENCE_SECONDS, Cluster
from tests.cluster.kit.commands import until
from tests.cluster.kit.images import MANIFEST
from tests.cluster.kit.namespace import Namespace
from tests.cluster.kit.objects import pod
from tests.process.job.harness import free_port

ELASTICDL = Path(sys.executable).with_name("elasticdl")
pytestmark = pytest.mark.timeout(2400)  # the first time TensorFlow is installed and Horovod compiled
MOST_ABOVE_PYTHON = 450_000_000
OWN_LAYERS = 15_000_000


@pytest.fixture(scope="module")
def images(cluster: Cluster) -> Images:
    return builder.images(cluster)


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """A user's folder, with a model in it that nobody but them may read."""
    model = tmp_path / "model_zoo" / "mnist" / "model.py"
    model.parent.mkdir(parents=True, mode=0o700)
    model.write_text("def custom_model(): ...\n")
    model.chmod(0o600)
    (tmp_path / "spec.py").write_text("cluster = None\n")
    return tmp_path


def elasticdl(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Types the command in a folder, where the only builder is the kit's."""
    return subprocess.run(
        [ELASTICDL, *words],
        cwd=folder,
        env=builder.environment() | more,
        capture_output=True,
        text=True,
        check=False,
    )


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of a command that went well."""
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


def failed(done: subprocess.CompletedProcess[str]) -> str:
    """The error of a command that did not."""
    assert done.returncode == 1, done.stderr[-3000:]
    return done.stderr.splitlines()[-1]


@contextmanager
def container(image: str) -> Iterator[str]:
    name = buildah("from", image).strip()
    try:
        yield name
    finally:
        buildah("rm", name)


def ran(image: str, *command: str, user: str = "1000") -> str:
    """What a command prints that is run in an image."""
    with container(image) as name:
        return buildah("run", f"--user={user}", name, "--", *command)


@functools.cache
def size(image: str) -> int:
    """The bytes of all its files."""
    with container(image) as name:
        return sum(path.lstat().st_size for path in Path(buildah("mount", name).strip()).rglob("*"))


def configuration(image: str) -> dict[str, object]:
    told: dict[str, object] = json.loads(buildah("inspect", "--type=image", image))["OCIv1"]["config"]
    return told


@contextmanager
def nothing() -> Iterator[tuple[str, list[str]]]:
    """A web server that has nothing; its address, and what it is asked for."""
    asked: list[str] = []

    class Empty(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *words: object) -> None:
            """Nothing is shown."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


@contextmanager
def registry(folder: Path, **settings: object) -> Iterator[str]:
    """A registry on this machine that speaks plain HTTP; its address."""
    address = f"127.0.0.1:{free_port()}"
    storage = {"filesystem": {"rootdirectory": str(folder / "registry")}}
    configuration = {"version": "0.1", "storage": storage, "http": {"addr": address}, **settings}
    (folder / "registry.json").write_text(json.dumps(configuration))
    with subprocess.Popen(
        ["docker-registry", "serve", folder / "registry.json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            until(lambda: answers(address), what="the registry answers", seconds=PATIENCE_SECONDS)
            yield address
        finally:
            process.kill()


def answers(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as connection:
        return connection.connect_ex((host, int(port))) == 0


def test_the_base_image_is_small_and_has_no_tensorflow() -> None:
    image = builder.build("base")
    packages = ran(image, "python", "-m", "pip", "list", "--format=freeze")
    assert {"kubernetes", "numba", "grpcio"} <= {line.partition("==")[0] for line in packages.splitlines()}
    assert "tensorflow" not in packages
    above = size(image) - size(builder.base_image())
    print(f"base: {above / 1e6:.0f} MB above Python's")
    assert above <= MOST_ABOVE_PYTHON


def test_the_image_of_workers_has_tensorflow_and_our_horovod_and_no_compiler() -> None:
    image = builder.build("tensorflow")
    ask = "from elastic_runtime.platform.allreduce import why_no_allreduce as why; print(tensorflow, why())"
    assert ran(image, "python", "-c", f"import tensorflow, horovod.tensorflow; {ask}").endswith(" None\n")
    assert ran(image, "sh", "-c", "command -v g++ cmake || echo none") == "none\n"
    print(f"tensorflow: {(size(image) - size(builder.base_image())) / 1e6:.0f} MB above Python's")


@pytest.mark.parametrize("target", ["base", "tensorflow"])
def test_nothing_runs_as_root_and_nothing_of_this_machine_is_in_an_image(target: str) -> None:
    image = builder.build(target)
    assert configuration(image)["User"] == "1000"
    assert ran(image, "sh", "-c", "cat /etc/pip.conf; env | grep -c PIP_CERT || true") == "0\n"


def test_our_code_is_a_small_layer_at_the_top(images: Images) -> None:
    address, _, rest = images.base.partition("/")
    name, _, tag = rest.partition(":")
    layers = manifest(f"http://{address}/v2/{name}/manifests/{tag}")["layers"]
    assert sum(layer["size"] for layer in layers[-2:]) <= OWN_LAYERS


def test_a_pod_of_any_user_runs_the_base_image(images: Images, namespace: Namespace) -> None:
    anybody = {"runAsUser": 123456, "runAsNonRoot": True}
    script = (
        "cd && touch mine && python -m elastic_runtime.master --help && python -m elastic_runtime.ps --help"
    )
    namespace.apply(pod("master", images.base, "sh", "-c", script, securityContext=anybody))
    namespace.wait_for_phase("Succeeded", "pod/master", seconds=600)  # its node has to pull the image
    told = namespace.kubectl("logs", "master")
    assert "--training_data" in told
    assert "--ps_id" in told


@pytest.mark.parametrize(("wish", "downloads"), [("yes", 1), ("sample", 0)])
def test_gen_data_puts_mnist_into_the_image(wish: str, downloads: int) -> None:
    """Which is told by what the mirror is asked for: it has nothing, and then the sample is taken for it."""
    mnist = f"/{uuid.uuid4().hex}/mnist.npz"  # of no layer that an earlier test has left
    with nothing() as (address, asked):
        image = builder.build("tensorflow", GEN_DATA=wish, MNIST_URL=f"{address}{mnist}")
    told = ran(image, "elasticdl", "data", "inspect", "/data/mnist/train")
    buildah("rmi", image)
    assert "6000 records" in told
    assert "tf.train.Example: image (float x 784), label (int x 1)" in told
    assert asked == [mnist] * downloads


def test_without_gen_data_an_image_has_none() -> None:
    assert ran(builder.build("tensorflow"), "ls", "/data") == ""


def test_a_base_image_with_tensorflow_keeps_its_own(tmp_path: Path) -> None:
    own = f"{builder.PYTHON}-with-tensorflow"
    (tmp_path / "Dockerfile").write_text(
        f"FROM {builder.PYTHON}\n"
        "RUN cd $(python -c 'import site; print(site.getsitepackages()[0])') && echo OWN=1 >tensorflow.py\n"
    )
    buildah("build", "--layers", "-t", own, tmp_path)
    image = builder.build("tensorflow-dependencies", BASE_IMAGE=own)
    assert ran(image, "python", "-c", "import tensorflow; print(tensorflow.OWN)") == "1\n"
    assert "tensorflow" not in ran(image, "python", "-m", "pip", "list", "--format=freeze")


def test_an_extra_index_is_asked_for_packages() -> None:
    with nothing() as (address, asked):
        image = builder.build("sources", EXTRA_PYPI_INDEX=f"{address}/simple")
    buildah("rmi", image)
    assert "/simple/hatchling/" in asked


def test_zoo_makes_an_image_with_the_models_out_of_nothing(zoo: Path) -> None:
    image = "elasticdl:mnist_ps"
    succeeded(elasticdl(zoo, "zoo", "init", "--model_zoo=model_zoo", "--cluster_spec", "spec.py"))
    assert image in succeeded(elasticdl(zoo, "zoo", "build", f"--image={image}", "."))
    imports = "import tensorflow, kubernetes, numba"
    script = f"cat /model_zoo/mnist/model.py /cluster_spec/spec.py && python -c '{imports}'"
    assert ran(image, "sh", "-c", script) == "def custom_model(): ...\ncluster = None\n"


def test_zoo_push_says_the_name_that_means_this_image_and_no_later_one(zoo: Path, cluster: Cluster) -> None:
    image = f"{cluster.site.registry}/user/elasticdl:mnist"
    buildah("tag", builder.base_image(), image)
    reference = succeeded(elasticdl(zoo, "zoo", "push", image))
    name, _, digest = reference.partition("@")
    assert name == image.removesuffix(":mnist")
    assert manifest(f"http://{cluster.site.registry}/v2/user/elasticdl/manifests/{digest}")["layers"]


def test_zoo_builds_on_an_image_of_ours_with_a_wheel_of_ours(zoo: Path) -> None:
    subprocess.run([builder.ROOT / "scripts" / "docker_build_wheel.sh"], cwd=zoo, check=True)
    base = builder.build("tensorflow")
    options = (f"--base_image={base}", "--model_zoo=model_zoo", "--local_pkg_dir=./build")
    succeeded(elasticdl(zoo, "zoo", "init", *options))
    succeeded(elasticdl(zoo, "zoo", "build", "--image=elasticdl:mnist_allreduce", "."))
    code = "import horovod.tensorflow, elastic_runtime.image; print(elastic_runtime.__version__)"
    version = next((zoo / "build").glob("elasticdl-*.whl")).name.split("-")[1]
    assert ran("elasticdl:mnist_allreduce", "python", "-c", code) == f"{version}\n"


def test_a_base_image_that_is_nowhere_is_named(zoo: Path) -> None:
    succeeded(elasticdl(zoo, "zoo", "init", "--model_zoo=model_zoo", "--base_image=nowhere.invalid/image:1"))
    told = failed(elasticdl(zoo, "zoo", "build", "--image=elasticdl:mine", "."))
    assert "a base image cannot be had, nowhere.invalid/image:1" in told


def test_a_build_that_fails_ends_with_its_last_words(zoo: Path) -> None:
    (zoo / "Dockerfile").write_text(f"FROM {builder.PYTHON}\nRUN echo so it was >&2; exit 7\n")
    told = failed(elasticdl(zoo, "zoo", "build", "--image=elasticdl:mine", "."))
    assert "the image could not be built: " in told
    assert "so it was" in told


def test_a_registry_that_wants_a_login_is_told_as_such(tmp_path: Path) -> None:
    users = {"htpasswd": {"realm": "users", "path": str(tmp_path / "users")}}
    with registry(tmp_path, auth=users) as address:
        (tmp_path / "registries.conf").write_text(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')
        plain = {"CONTAINERS_REGISTRIES_CONF": str(tmp_path / "registries.conf")}
        image = f"{address}/elasticdl:mine"
        buildah("tag", builder.base_image(), image)
        told = failed(elasticdl(tmp_path, "zoo", "push", image, **plain))
    buildah("rmi", image)
    assert f"the registry {address} refused it: " in told
    assert told.endswith(f"(buildah login {address})")


def test_a_registry_without_tls_is_told_as_such(tmp_path: Path) -> None:
    with registry(tmp_path) as address:
        image = f"{address}/elasticdl:mine"
        buildah("tag", builder.base_image(), image)
        told = failed(elasticdl(tmp_path, "zoo", "push", image))
    buildah("rmi", image)
    assert f"the registry {address} speaks plain HTTP" in told


def manifest(address: str) -> dict[str, Any]:
    request = urllib.request.Request(address, headers={"Accept": MANIFEST})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        request, timeout=PATIENCE_SECONDS
    ) as answer:
        found: dict[str, Any] = json.load(answer)
    return found
