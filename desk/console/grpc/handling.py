"""What happens to a call: who asks, until when, and what became of it. Nobody decides here what a method does.

Who asks is decided from a call's metadata, before its message has come: a call counts from its beginning, and one that sends nothing must not
keep the others out. So each handler is one of a stream of requests, of which it takes the first.

The desk's methods run in the threads of `console/calls.py`; each call and each stream is a coroutine. A call whose deadline is over is answered
at once: if it waited for a thread, it never begins; if it runs, it is given up before a change is written, or ends; the audit log says which."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import grpc
import structlog
from google.protobuf.message import DecodeError

from common.errors import ConfigurationError, DStreamError, unforeseen
from desk.console.calls import OF_CHANGE, OF_LOOK, Calls, Kind
from desk.console.grpc import status
from desk.console.grpc.admission import Admission
from desk.console.grpc.events import Looks, Seen
from desk.console.grpc.methods import CALLS, Call
from desk.console.grpc.protocol import Method, services
from desk.console.refusals import TooMany
from desk.desk import Actor, Desk

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Sizes:
    """`calls`: at once, with streams and reflection, of all and of a client. `connections`: at once; one without a call is closed after
    `idle_milliseconds`. `message_seconds`: until the message of a call is whole. `unread_seconds`: for which a stream waits for its reader.
    `stream_seconds`: after which a stream ends, so that its client shows its token again. `reflection_seconds`: the same for a description."""

    calls: int = 512
    calls_of_a_client: int = 128
    connections: int = 1024
    idle_milliseconds: int = 30_000
    message_seconds: float = 10.0
    streams: int = 256
    streams_of_a_client: int = 16
    unread_seconds: float = 30.0
    stream_seconds: float = 3600.0
    reflection_seconds: float = 60.0
    request_bytes: int = 1 << 20
    answer_bytes: int = 16 << 20


class Handling:
    """Belongs to one event loop."""

    def __init__(self, desk: Desk, admission: Admission, calls: Calls, sizes: Sizes) -> None:
        self._desk = desk
        self._admission = admission
        self._calls = calls
        self._sizes = sizes
        self._looks = Looks(desk.watching)
        self._open = Counter[str]()

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        return [
            grpc.method_handlers_generic_handler(
                name, {method.name.partition(".")[2]: self._handler(method) for method in methods}
            )
            for name, methods in services()
        ]

    async def close(self) -> None:
        """Ends each stream."""
        await self._looks.close()

    def _handler(self, method: Method) -> grpc.RpcMethodHandler:
        """With bytes on both sides: nothing of a client that is refused is read, and threads do the reading and writing."""
        if method.streams:

            async def stream(requests: Any, context: Any) -> None:
                async with self._opened(method.name, context) as (_, client):
                    await self._watch(method, client, await self._message(method, context), context)

            return grpc.stream_stream_rpc_method_handler(stream)
        call = CALLS[method.name]

        async def unary(requests: Any, context: Any) -> bytes:
            async with self._opened(method.name, context) as (actor, _):
                return await self._unary(method, call, actor, await self._message(method, context), context)

        return grpc.stream_unary_rpc_method_handler(unary)

    async def _message(self, method: Method, context: Any) -> bytes:
        """The one that a call has. Ends a call that sends none in time."""
        try:
            raw = await asyncio.wait_for(context.read(), self._sizes.message_seconds)
        except TimeoutError:
            text = f"the message of the call has not come within {self._sizes.message_seconds:g} s"
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text)
        if raw is grpc.aio.EOF:
            await _abort(context, method.name, ConfigurationError(["the call has no message"]))
        return cast(bytes, raw)

    async def _unary(self, method: Method, call: Call, actor: Actor, raw: bytes, context: Any) -> bytes:
        def work() -> bytes:
            into = call.answer(self._desk, _parsed(method, raw), method.returns(), actor)
            return bytes(into.SerializeToString())

        try:
            answer = await self._calls.of(_kind(call), work, overdue=OF_CHANGE if call.changes else OF_LOOK)
            if len(answer) > self._sizes.answer_bytes:
                raise ConfigurationError(
                    [f"the answer has {len(answer)} bytes, of {self._sizes.answer_bytes} at most"],
                    hint="ask for less with `most`",
                )
        except Exception as error:
            await _abort(context, method.name, error)
        return answer

    async def _watch(self, method: Method, client: str, raw: bytes, context: Any) -> None:
        try:
            asked = _parsed(method, raw)
            if self._looks.streams >= self._sizes.streams:
                raise TooMany(f"{self._sizes.streams} streams are open already", after=30, hint="close some")
            if self._looks.streams_of(client) >= self._sizes.streams_of_a_client:
                raise TooMany(
                    f"{self._sizes.streams_of_a_client} streams of this client are open already",
                    after=30,
                    hint="close some, or have one stream serve all who want to know",
                )
        except DStreamError as error:
            await _abort(context, method.name, error)
        self._looks.join(client)
        try:
            async with asyncio.timeout(self._sizes.stream_seconds) as whole:
                await self._events(asked.tables, context)
        except TimeoutError:
            if not whole.expired():
                text = f"no event was read for {self._sizes.unread_seconds:g} s"
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        except Exception as error:
            await _abort(context, method.name, error)
        finally:
            self._looks.leave(client)

    async def _events(self, tables: bool, context: Any) -> NoReturn:
        seen = Seen()
        while True:
            event = seen.event(await self._looks.after(seen.number), tables=tables)
            await asyncio.wait_for(context.write(event), self._sizes.unread_seconds)

    @asynccontextmanager
    async def _opened(self, method: str, context: Any) -> AsyncIterator[tuple[Actor, str]]:
        """A call that is let in and counted: who asks, and as whose calls and streams theirs are counted."""
        actor, client = await self._admitted(method, context)
        if self._open[client] >= self._sizes.calls_of_a_client:
            text = f"{self._sizes.calls_of_a_client} calls of this client are open already"
            await _abort(context, method, TooMany(text, after=5, hint="await answers before further calls"))
        self._open[client] += 1
        try:
            yield actor, client
        finally:
            self._open[client] -= 1
            self._open = +self._open

    async def _admitted(self, method: str, context: Any) -> tuple[Actor, str]:
        """Ends the call of a client that is not let in."""
        try:
            metadata = tuple(context.invocation_metadata() or ())
            actor, client = await asyncio.to_thread(self._admission.with_client, method, metadata, context.peer())
        except Exception as error:
            await _abort(context, method, error)
        context.set_trailing_metadata((("dstream-request", actor.request),))
        return actor, client

    async def described(self, handler: Any, requests: Any, context: Any) -> None:
        """Reflection says everything, so it is for those alone who may look."""
        async with self._opened("reflection", context):
            try:
                async with asyncio.timeout(self._sizes.reflection_seconds):
                    async for answer in handler.stream_stream(requests, context):
                        await context.write(answer)
            except TimeoutError:
                text = f"a description takes at most {self._sizes.reflection_seconds:g} s"
                await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text)


def _kind(call: Call) -> Kind:
    port = call.asks.partition(".")[0]
    return "seen" if port == "watching" else cast(Kind, port)


def _parsed(method: Method, raw: bytes) -> Any:
    try:
        return method.takes.FromString(raw)
    except DecodeError:
        raise ConfigurationError(
            ["the request is not the message of this method"], hint="compile the client from api/dstream.proto"
        ) from None


async def _abort(context: Any, name: str, error: Exception) -> NoReturn:
    if not isinstance(error, DStreamError):
        log.error(
            "request failed",
            request=name,
            error=unforeseen(error),
            hint="this is a defect of DStream: report this line",
        )
    await context.abort(status.code(error), status.text(error), ((status.DETAILS, status.details(error)),))
    raise AssertionError("abort() has returned")
