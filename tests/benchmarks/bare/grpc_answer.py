"""What gRPC needs, from `python` to the first answer of a server that does nothing."""

import asyncio

import grpc


async def answer(request: bytes, context: object) -> bytes:
    return request


async def main() -> None:
    server = grpc.aio.server()
    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        await channel.unary_unary("/bench/Echo")(b"")
    await server.stop(None)


asyncio.run(main())
