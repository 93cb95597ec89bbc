"""The peer: the cheapest unary server that grpc.aio can be. ``python -m bench.grpcio_echo`` prints its address."""

from __future__ import annotations

import asyncio
import signal

import grpc
import uvloop

from bench.load import PREDICT


async def echo(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
    """The request itself; no protobuf on the way."""
    del context
    return request


async def main() -> None:
    """Serves until SIGTERM."""
    service, method = PREDICT.strip("/").split("/")
    handler = grpc.method_handlers_generic_handler(service, {method: grpc.unary_unary_rpc_method_handler(echo)})
    server = grpc.aio.server(options=[("grpc.max_concurrent_streams", 1024)])
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await server.stop(grace=2)


if __name__ == "__main__":
    uvloop.run(main())
