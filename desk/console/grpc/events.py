"""EventService.Watch: one thread asks what is new for all streams, and each stream gets the newest look that it has not had.

A slow reader misses looks: nothing is kept for it. A mute one loses its stream. It costs a coroutine, and no thread."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from common.errors import Stopped
from desk.console.grpc.documents import fill
from desk.console.grpc.protocol import message
from desk.desk import Watching
from desk.documents.tables import Table

WAIT = 1.0
"""Seconds that a question for something new may take: so long a stop may wait for it."""


@dataclass(frozen=True, slots=True)
class Look:
    """As bytes of an Event: messages of protobuf are joined by joining their bytes. `tables`: by name."""

    number: int
    head: bytes
    tables: Mapping[str, bytes]


@dataclass(slots=True)
class Seen:
    """What one stream has had."""

    number: int = -1
    tables: Mapping[str, bytes] = field(default_factory=dict)

    def event(self, look: Look, *, tables: bool) -> bytes:
        """What is new to it. Tables that did not change are the same objects in both looks."""
        before, self.number = self.tables, look.number
        if not tables:
            return look.head
        self.tables = look.tables
        changed = [each for name, each in look.tables.items() if before.get(name) is not each]
        gone = message("Event")(gone=[name for name in before if name not in look.tables])
        return b"".join((look.head, *changed, gone.SerializeToString()))


class Looks:
    """The newest look. Belongs to the event loop; only `_look` runs in a thread, and that is one."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grpc-look")
        self._documents: dict[str, tuple[Table, bytes]] = {}
        self._news = asyncio.Condition()
        self._newest: Look | None = None
        self._fault: Exception | None = None
        self._task: asyncio.Task[None] | None = None
        self._streams = Counter[str]()
        self._over = False

    @property
    def streams(self) -> int:
        return self._streams.total()

    def streams_of(self, client: str) -> int:
        return self._streams[client]

    def join(self, client: str) -> None:
        """The first stream begins the looking, the last one ends it: a console that nobody watches asks nothing."""
        self._streams[client] += 1
        if self._task is None:
            self._task = asyncio.create_task(self._keep_looking())

    def leave(self, client: str) -> None:
        self._streams[client] -= 1
        self._streams = +self._streams
        if not self._streams and self._task is not None:
            self._task.cancel()
            self._task, self._newest, self._fault = None, None, None

    async def after(self, number: int) -> Look:
        """The newest, once it is newer than `number`. Raises what looking raised, or Stopped."""
        async with self._news:
            await self._news.wait_for(
                lambda: self._over or self._fault or (self._newest is not None and self._newest.number > number)
            )
        if self._over:
            raise Stopped("the console stops", hint="open the stream again")
        if self._fault is not None:
            raise self._fault
        assert self._newest is not None
        return self._newest

    async def close(self) -> None:
        """Ends each stream."""
        async with self._news:
            self._over = True
            self._news.notify_all()
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _keep_looking(self) -> None:
        loop, number = asyncio.get_running_loop(), -1
        while not self._over:
            look: Look | None = None
            fault: Exception | None = None
            try:
                look = await loop.run_in_executor(self._thread, self._look, number)
            except Exception as error:  # each stream ends with it, and whoever opens one again has it looked for again
                fault = error
            if look is not None or fault is not None:
                async with self._news:
                    self._newest, self._fault = look or self._newest, fault
                    self._news.notify_all()
            if fault is not None:
                await asyncio.sleep(WAIT)
            elif look is not None:
                number = look.number

    def _look(self, before: int) -> Look | None:
        number = self._watching.changed(before, wait=WAIT)
        if number <= before:
            return None
        head = message("Event")(number=number)
        fill(head.overview, self._watching.overview())
        documents: dict[str, tuple[Table, bytes]] = {}
        for table in self._watching.tables():
            kept = self._documents.get(table.table)
            documents[table.table] = kept if kept is not None and kept[0] == table else (table, _as_event(table))
        self._documents = documents
        return Look(number, head.SerializeToString(), {name: raw for name, (_, raw) in documents.items()})


def _as_event(table: Table) -> bytes:
    event: Any = message("Event")()
    fill(event.tables.add(), table)
    return bytes(event.SerializeToString())
