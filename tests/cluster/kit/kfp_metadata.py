"""The metadata store of KFP: that of the package `ml-metadata`, behind the gRPC service that KFP expects.

    python -SP kfp_metadata.py DATABASE ADDRESS

Run by itself, with that package and nothing of this environment in its path. The package has the store as a
library, and the service as a description; each call of the one is a function of the other, of bytes to bytes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
from ml_metadata.metadata_store.pywrap.metadata_store_extension import metadata_store
from ml_metadata.proto import metadata_store_pb2, metadata_store_service_pb2

CODES = {code.value[0]: code for code in grpc.StatusCode}
_one_at_a_time = threading.Lock()


def serve(database: str, address: str) -> None:
    """Does so until it is killed."""
    service = metadata_store_service_pb2.DESCRIPTOR.services_by_name["MetadataStoreService"]
    store = _opened(database)
    calls = {
        method.name: grpc.unary_unary_rpc_method_handler(_call(store, method.name))
        for method in service.methods
        if hasattr(metadata_store, method.name)
    }
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, calls),))
    if not server.add_insecure_port(address):
        raise SystemExit(f"cannot listen at {address}")
    server.start()
    server.wait_for_termination()


def _opened(database: str) -> Any:
    connection, migration = metadata_store_pb2.ConnectionConfig(), metadata_store_pb2.MigrationOptions()
    connection.sqlite.filename_uri = database
    connection.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
    migration.enable_upgrade_migration = True
    return metadata_store.CreateMetadataStore(connection.SerializeToString(), migration.SerializeToString())


def _call(store: Any, name: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    function = getattr(metadata_store, name)

    def call(request: bytes, context: grpc.ServicerContext) -> bytes:
        with _one_at_a_time:
            answer, message, code = function(store, request)
        if code:  # KFP goes by it: what is not found, it makes
            told = message.decode() if isinstance(message, bytes) else message
            context.abort(CODES.get(code, grpc.StatusCode.UNKNOWN), told)
        return bytes(answer)

    return call


if __name__ == "__main__":
    serve(*sys.argv[1:])
