"""A server of gRPC in a thread of its own: `serve()` begins to listen, and what it returns ends it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pool
from grpc_reflection.v1alpha import reflection

from common.errors import PermanentError
from desk.console.calls import Calls
from desk.console.descriptors import connections
from desk.console.grpc.admission import Admission
from desk.console.grpc.handling import Handling, Sizes
from desk.console.grpc.protocol import POOL, services
from desk.desk import Desk

STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """In PEM. `authorities`: of the clients, whose certificate is then demanded."""

    key: bytes
    chain: bytes
    authorities: bytes | None = None


class Serving:
    """A server that listens."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, thread: threading.Thread, port: int, end: Callable[[], Any]
    ) -> None:
        self._loop, self._thread, self._end = loop, thread, end
        self.port = port

    def stop(self) -> None:
        """Streams end at once, calls within five seconds. May be called twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end)
            self._thread.join(STOP_SECONDS + 5)


def serve(
    desk: Desk,
    admission: Admission,
    address: str,
    *,
    calls: Calls | None = None,
    certificate: Certificate | None = None,
    sizes: Sizes | None = None,
) -> Serving:
    """`desk`: the audited one. `address`: `127.0.0.1:8091`; port 0 is any that is free. `calls`: those of HTTP, if it is served beside.
    Raises PermanentError if nobody can listen there."""
    begun: Future[Serving] = Future()
    thread = threading.Thread(
        target=lambda: asyncio.run(
            _run(
                lambda: Handling(desk, admission, calls or Calls(), sizes or Sizes()),
                sizes or Sizes(),
                lambda server: _listen(server, address, certificate),
                begun,
            )
        ),
        name="grpc",
        daemon=True,
    )
    thread.start()
    return begun.result()


async def _run(
    made: Callable[[], Handling], sizes: Sizes, listen: Callable[[Any], int], begun: Future[Serving]
) -> None:
    over = asyncio.Event()
    try:
        handling = made()
        server = grpc.aio.server(
            interceptors=(_Guarded(handling),), options=_options(sizes), maximum_concurrent_rpcs=sizes.calls
        )
        server.add_generic_rpc_handlers(handling.handlers())
        names = [name for name, _ in services()]
        reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server, _Descriptions())
        port = listen(server)
        await server.start()
    except Exception as error:
        begun.set_exception(error)
        return
    begun.set_result(Serving(asyncio.get_running_loop(), threading.current_thread(), port, over.set))
    await over.wait()
    await handling.close()
    await server.stop(STOP_SECONDS)


def _listen(server: Any, address: str, certificate: Certificate | None) -> int:
    try:
        if certificate is None:
            return int(server.add_insecure_port(address))
        pair = ((certificate.key, certificate.chain),)
        demanded = certificate.authorities is not None
        return int(
            server.add_secure_port(
                address, grpc.ssl_server_credentials(pair, certificate.authorities, require_client_auth=demanded)
            )
        )
    except RuntimeError as error:
        raise PermanentError(
            f"listening on {address} for gRPC failed",
            hint="another process has the port, or the address is not this machine's; with TLS: the key must belong to the certificate",
        ) from error


def _options(sizes: Sizes) -> list[tuple[str, int]]:
    """A client that answers no ping within 10 s is gone; one that pings more often than every 10 s is disconnected. A connection without a call
    is closed soon, because it keeps a descriptor; a client connects again with its next call."""
    return [
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", sizes.request_bytes),
        ("grpc.max_send_message_length", sizes.answer_bytes),
        ("grpc.max_concurrent_streams", sizes.calls),
        ("grpc.max_metadata_size", 8 << 10),
        ("grpc.absolute_max_metadata_size", 16 << 10),
        ("grpc.server_handshake_timeout_ms", 5_000),
        ("grpc.max_connection_idle_ms", sizes.idle_milliseconds),
        ("grpc.max_allowed_incoming_connections", connections(sizes.connections)),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.http2.max_ping_strikes", 3),
    ]


class _Descriptions:
    """For reflection: ours, and those of reflection itself."""

    def __getattr__(self, name: str) -> Any:
        def found(of: Any) -> Any:
            try:
                return getattr(POOL, name)(of)
            except KeyError:
                return getattr(descriptor_pool.Default(), name)(of)

        return found


class _Guarded(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Reflection is another's servicer, and asks nobody who calls. Our own methods do so by themselves."""

    def __init__(self, handling: Handling) -> None:
        self._handling = handling

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None or not details.method.startswith(f"/{reflection.SERVICE_NAME}/"):
            return handler

        async def guarded(requests: Any, context: Any) -> None:
            await self._handling.described(handler, requests, context)

        return grpc.stream_stream_rpc_method_handler(guarded, handler.request_deserializer, handler.response_serializer)
