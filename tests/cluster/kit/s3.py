"""An S3 store in a cluster, for artifacts: moto's server, which speaks the protocol and keeps all in memory.

    store = s3.started(cluster)       # once for a cluster; later it is found
    store.configure(namespace)        # Argo keeps there what workflows of that namespace make
    store.keys("namespace/workflow/") # what is in it

It comes from PyPI into the kit's cache the first time, and runs beside the API server.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import urllib.parse
import urllib.request
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from tests.cluster.kit.binaries import cache_folder
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.commands import run, until
from tests.cluster.kit.namespace import Namespace

WHEELS = (
    "moto==5.2.5",  # with what its parts s3 and server need for S3
    "blinker==1.9.0",
    "boto3==1.44.5",
    "botocore==1.44.5",
    "certifi==2026.10.18",
    "cffi==2.1.1",
    "charset-normalizer==3.5.2",
    "click==8.5.1",
    "cryptography==50.0.2",
    "flask==3.1.3",
    "flask-cors==6.0.5",
    "idna==3.20",
    "itsdangerous==2.2.0",
    "jinja2==3.1.6",
    "jmespath==1.1.0",
    "markupsafe==3.0.4",
    "py-partiql-parser==0.6.3",
    "pycparser==3.12",
    "python-dateutil==2.9.0.post0",
    "pyyaml==6.0.3",
    "requests==2.34.2",
    "responses==0.26.3",
    "s3transfer==0.19.3",
    "six==1.17.0",
    "urllib3==2.8.0",
    "werkzeug==3.1.9",
    "xmltodict==1.0.4",
)
PORT = 5001
BUCKET = "artifacts"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "kit", "AWS_SECRET_ACCESS_KEY": "kit"}
SECRET = "artifact-store"
NAMES = "{http://s3.amazonaws.com/doc/2006-03-01/}"
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


@dataclass(frozen=True, slots=True)
class Store:
    """A bucket, by the address that it has for pods and on this machine."""

    address: str
    bucket: str = BUCKET

    def of(self, bucket: str) -> Store:
        """Another bucket there, that somebody else makes."""
        return Store(self.address, bucket)

    def configure(self, namespace: Namespace) -> None:
        """Have Argo keep there what steps of this namespace make, and give the keys under `SECRET`."""
        keys = {"accessKeySecret": "AWS_ACCESS_KEY_ID", "secretKeySecret": "AWS_SECRET_ACCESS_KEY"}
        secrets = "".join(f"  {kind}: {{name: {SECRET}, key: {key}}}\n" for kind, key in keys.items())
        key = "{{workflow.namespace}}/{{workflow.name}}/{{pod.name}}"
        place = f"  endpoint: {self.address}\n  bucket: {self.bucket}\n"
        place += f"  insecure: true\n  keyFormat: '{key}'\n"
        chosen = {"workflows.argoproj.io/default-artifact-repository": "kit"}
        namespace.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": SECRET},
                "stringData": CREDENTIALS,
            },
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "artifact-repositories", "annotations": chosen},
                "data": {"kit": f"s3:\n{place}{secrets}"},
            },
        )

    def keys(self, prefix: str = "") -> list[str]:
        """The names of all objects that begin so."""
        query = urllib.parse.urlencode({"list-type": "2", "prefix": prefix})
        tree = ElementTree.fromstring(self._get(f"?{query}"))
        return [key.text or "" for key in tree.iter(f"{NAMES}Key")]

    def read(self, key: str) -> bytes:
        """The content of an object."""
        return self._get(f"/{urllib.parse.quote(key)}")

    def answers(self) -> bool:
        """Whether it is there, with its bucket."""
        try:
            request = urllib.request.Request(f"http://{self.address}/{self.bucket}", method="PUT")
            with _open(request, timeout=5):
                return True
        except OSError:
            return False

    def _get(self, what: str) -> bytes:
        named = {"Authorization": "AWS kit:kit"}  # it checks no signature, but wants one
        request = urllib.request.Request(f"http://{self.address}/{self.bucket}{what}", headers=named)
        with _open(request, timeout=30) as answer:
            return bytes(answer.read())


def started(cluster: Cluster) -> Store:
    """The store of this cluster, which ends with it."""
    host = cluster.site.control_plane
    store = Store(f"{host}:{PORT}")
    if not store.answers():
        program = (sys.executable, "-m", "moto.server", "-H", host, "-p", PORT)
        # It takes the first part of a name that it is called by for a bucket, unless it is told not to.
        settings = {"PYTHONPATH": str(installed()), "S3_IGNORE_SUBDOMAIN_BUCKETNAME": "true"}
        cluster.control_plane.machine.start("s3", *program, env=settings)
        until(partial(store.answers), what="the S3 store answers", seconds=180)
    return store


def installed() -> Path:
    """Where the server is, as PyPI gives it; the first time it is fetched from there."""
    mark = hashlib.sha256(" ".join((str(sys.version_info[:2]), *WHEELS)).encode()).hexdigest()[:12]
    folder = cache_folder().with_name("s3") / mark
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unfinished-") as unfinished:
            pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps")
            run(*pip, "--target", f"{unfinished}/moto", *WHEELS)
            if not folder.exists():
                shutil.move(f"{unfinished}/moto", folder)
    return folder
