"""What Kubeflow Pipelines stands on: a database, a metadata store and S3, beside the API server.

None of them is a pod, so no fault of a node takes what KFP remembers. They end with the cluster, and with
them all that they know.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from elastic_runtime.errors import InputError
from tests.cluster.kit import requirements, s3
from tests.cluster.kit.binaries import cache_folder
from tests.cluster.kit.cluster import Cluster
from tests.cluster.kit.commands import run, until

PACKAGES = {"mariadb-server-core": "mariadbd"}
DATABASE_PORT = 3306
METADATA = "1.17.1"
METADATA_PORT = 8080
METADATA_WHEELS = (
    f"ml-metadata=={METADATA}",
    "absl-py==1.4.0",
    "attrs==23.2.0",
    "grpcio==1.85.1",
    "protobuf==4.25.9",
    "six==1.17.0",
    "typing_extensions==4.16.0",
)
TOO_NEW_FOR_METADATA = (3, 12)
BUCKET = "mlpipeline"
TABLES = "mysql_system_tables.sql mysql_performance_tables.sql mysql_system_tables_data.sql"
MAKE_DATABASE = f"""set -eu
cd /usr/share/mysql; mkdir -p "$1/mysql"
{{ echo 'USE mysql;'; cat {TABLES}; }} | mariadbd --no-defaults --bootstrap --user=root --datadir="$1"
"""
# As in KFP's own deployment, where nobody but pods of the cluster can reach it.
LET_ROOT_IN = "CREATE OR REPLACE USER root@'%';\nGRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;\n"


def why_not() -> str:
    """What keeps them from running where a cluster can; empty if nothing does."""
    if sys.version_info < TOO_NEW_FOR_METADATA:
        return ""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"there is no ml-metadata for Python {version}, but for 3.11"


def install() -> None:
    """Installs what they are; the second time there is nothing to do."""
    if reason := why_not():
        remedy = "make .venv with Python 3.11"
        raise InputError(reason, where="Kubeflow Pipelines in a cluster of the kit", remedy=remedy)
    requirements.install(PACKAGES)
    folder = _metadata_folder()
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unfinished-") as unfinished:
            made = Path(unfinished) / "wheels"
            pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", made)
            run(*pip, *METADATA_WHEELS)
            with suppress(FileExistsError):
                shutil.move(made, folder)


def start(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """Starts them; returns, by the name of its service in KFP's manifests, where each of them listens."""
    host = cluster.site.control_plane
    _start_database(cluster)
    _start_metadata(cluster)
    store = s3.started(cluster)
    places = {"mysql": (host, DATABASE_PORT), "metadata-grpc-service": (host, METADATA_PORT)}
    for name, place in places.items():
        until(partial(_listens, place), what=f"{name} listens", seconds=60)
    store_host, _, store_port = store.address.rpartition(":")
    return {**places, "minio-service": (store_host, int(store_port))}


def database(cluster: Cluster) -> Path:
    """The file of the metadata store."""
    return cluster.control_plane.machine.folder / "metadata.db"


def _start_database(cluster: Cluster) -> None:
    machine = cluster.control_plane.machine
    data, first = machine.folder / "mysql", machine.folder / "mysql.sql"
    first.write_text(LET_ROOT_IN)
    machine.run("sh", "-c", MAKE_DATABASE, "sh", data)
    machine.start(
        "mysql",
        "mariadbd",
        "--no-defaults",
        "--user=root",
        f"--datadir={data}",
        f"--bind-address={cluster.site.control_plane}",
        f"--port={DATABASE_PORT}",
        "--socket=/run/mysql.sock",
        f"--init-file={first}",
        "--skip-name-resolve",
        "--innodb-flush-log-at-trx-commit=0",
    )


def _start_metadata(cluster: Cluster) -> None:
    machine = cluster.control_plane.machine
    program = (sys.executable, "-SP", Path(__file__).with_name("kfp_metadata.py"))
    address = f"{cluster.site.control_plane}:{METADATA_PORT}"
    path = {"PYTHONPATH": str(_metadata_folder())}
    machine.start("metadata", *program, database(cluster), address, env=path)


def _listens(place: tuple[str, int]) -> bool:
    with suppress(OSError), closing(socket.create_connection(place, timeout=5)):
        return True
    return False


def _metadata_folder() -> Path:
    return cache_folder().with_name("ml-metadata") / METADATA
