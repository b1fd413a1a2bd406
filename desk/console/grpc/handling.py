"""What happens to a call: who asks, until when, and what became of it. Nobody decides here what a method does.

The desk's methods run in the threads of `console/calls.py`; each call and each stream is a coroutine. A call whose deadline is over is answered
at once: if it waited for a thread, it never begins; if it runs, it is given up before a change is written, or ends; the audit log says which."""

from __future__ import annotations

import asyncio
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
    """`calls`: at once, with streams. `unread_seconds`: for which a stream waits for its reader. `stream_seconds`: after which a stream ends, so
    that its client shows its token again. `reflection_seconds`: the same for a description."""

    calls: int = 512
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

            async def stream(raw: bytes, context: Any) -> None:
                await self._watch(method, raw, context)

            return grpc.unary_stream_rpc_method_handler(stream)
        call = CALLS[method.name]

        async def unary(raw: bytes, context: Any) -> bytes:
            return await self._unary(method, call, raw, context)

        return grpc.unary_unary_rpc_method_handler(unary)

    async def _unary(self, method: Method, call: Call, raw: bytes, context: Any) -> bytes:
        actor, _ = await self.admitted(method.name, context)

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

    async def _watch(self, method: Method, raw: bytes, context: Any) -> None:
        _, client = await self.admitted(method.name, context)
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

    async def admitted(self, method: str, context: Any) -> tuple[Actor, str]:
        """Who asks, and as whose streams theirs are counted. Ends the call of a client that is not let in."""
        try:
            metadata = tuple(context.invocation_metadata() or ())
            actor, client = await asyncio.to_thread(self._admission.with_client, method, metadata, context.peer())
        except Exception as error:
            await _abort(context, method, error)
        context.set_trailing_metadata((("dstream-request", actor.request),))
        return actor, client

    async def described(self, handler: Any, requests: Any, context: Any) -> None:
        """Reflection says everything, so it is for those alone who may look."""
        await self.admitted("reflection", context)
        async with asyncio.timeout(self._sizes.reflection_seconds):
            async for answer in handler.stream_stream(requests, context):
                await context.write(answer)


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
