"""Faults by name, for tests (`with emulator.inject(ServerBusy(2)):`) and for `--fault NAME[:ARGUMENTS]`.

Each says what it is for and what must remain. They act at the seams: a send, a request, a settlement, a frame on its way out;
none reaches into the messages. An entity is named by its path in any case, a dead-letter queue by its own; `*` is every entity.
Which client turns a fault into which exception is not their business. There is none for the clock: who writes a test has `clock`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping
from typing import Final

from emulators import fault_names
from emulators.servicebus.amqp.connection import Connection
from emulators.servicebus.amqp.values import AmqpError, Value
from emulators.servicebus.store.outcomes import lock_lost
from emulators.servicebus.store.sessions import session_lost
from emulators.servicebus.throttle import server_busy

from .frames import AnswersDelayed, DeliveriesDelayed, RoundTripAdded, SettlementAnswersLost, SettlementAnswersMerged
from .injection import Fault, Server
from .silence import Mute
from .slow import EntitySlow

__all__ = [
    "NAMES", "AnswersDelayed", "ConnectionCutAfter", "ConnectionCutAtRandom", "ConnectionsCut", "DeliveriesDelayed",
    "EntityFull", "EntitySlow", "LinksDetached", "LocksLost", "Mute", "RoundTripAdded", "SendsRefused", "ServerBusy", "ServerRestart",
    "SettlementAnswersLost", "SettlementAnswersMerged", "parse", "usage",
]  # fmt: skip

ANY: Final = "*"


class _EntityFault(Fault):
    """A fault of one entity, or of any, that happens `times` times, or as often as it can (None)."""

    def __init__(self, entity: str, times: int | None) -> None:
        self._entity = entity.strip("/").lower()
        self._left = times

    def hits(self, path: str) -> bool:
        """Does it happen now, to this entity?"""
        if self._left == 0 or self._entity not in (ANY, path):
            return False
        if self._left is not None:
            self._left -= 1
        return True


class ServerBusy(_EntityFault):
    """A namespace that throttles, for `seconds`: each `every`th request to the entity is answered with server-busy.

    Requests are sends (a batch is one), asking for messages, and those to `$management`; a receiver that asks is detached, as
    nothing else answers it (Azure/azure-sdk-for-java issue 37594). What remains: a refused send is not in the entity; what a
    detached receiver holds stays locked until the locks end.
    """

    def __init__(self, seconds: float, every: int = 1, entity: str = ANY) -> None:
        super().__init__(entity, None)
        if every < 1:
            raise ValueError(f"of every {every} requests none can be refused")
        self._seconds, self._every = seconds, every
        self._seen = 0
        self._now: Callable[[], float] = lambda: 0.0
        self._until = 0.0

    def begin(self, server: Server) -> None:
        self._now = server.loop.time
        self._until = self._now() + self._seconds

    def asking(self, path: str) -> AmqpError | None:
        if self._now() >= self._until or not self.hits(path):
            return None
        self._seen += 1
        return None if self._seen % self._every else server_busy()

    def sending(self, path: str, ids: Collection[Value] = ()) -> AmqpError | None:
        return self.asking(path)


class SendsRefused(_EntityFault):
    """The next `times` sends to an entity are refused with a condition of choice, or those that hold the message of an id.

    What remains: nothing of a refused send, a batch included.
    """

    def __init__(
        self,
        entity: str,
        condition: str = "amqp:internal-error",
        times: int | None = None,
        message_id: str | None = None,
    ) -> None:
        super().__init__(entity, times)
        self._failure = AmqpError(condition, f"The send was refused ({condition}).")
        self._message_id = message_id

    def sending(self, path: str, ids: Collection[Value] = ()) -> AmqpError | None:
        if self._message_id is not None and self._message_id not in ids:
            return None
        return self._failure if self.hits(path) else None


class EntityFull(_EntityFault):
    """An entity without room, until the fault is lifted. What remains: what is in it, which may be received."""

    def __init__(self, entity: str) -> None:
        super().__init__(entity, None)

    def sending(self, path: str, ids: Collection[Value] = ()) -> AmqpError | None:
        if not self.hits(path):
            return None
        text = f"The maximum entity size of '{path}' has been reached or exceeded."
        return AmqpError("amqp:resource-limit-exceeded", text)


class LocksLost(_EntityFault):
    """The next `times` settlements on an entity find the lock gone: the message's own, or its session's.

    What remains: the message, available again with one delivery more, as after a lock that expired. A session is free at once; its
    owner's link stays and gets nothing more.
    """

    def __init__(self, entity: str, times: int | None = 1) -> None:
        super().__init__(entity, times)

    def settling(self, path: str, session: bool) -> AmqpError | None:
        if not self.hits(path):
            return None
        return session_lost() if session else lock_lost()


class LinksDetached(Fault):
    """Every link to an entity is detached at once, and again every `every` seconds.

    What remains: the connections, and locks until they end; a session is free at once.
    """

    def __init__(self, entity: str = ANY, every: float | None = None) -> None:
        self._entity = "" if entity == ANY else entity.strip("/").lower()
        self._every = every
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, server: Server) -> None:
        if self._every is not None:
            self._timer = server.loop.call_later(self._every, self.begin, server)
        text = "The link is force detached by the broker due to errors occurred in the service."
        for client in list(server.clients):
            client.detach(self._entity, AmqpError("amqp:link:detach-forced", text))

    async def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class ConnectionCutAfter(Fault):
    """The network breaks in the middle of a frame: after `count` more octets to any client the one being answered is cut off.

    `times`: so often, counting anew each time. What remains: what was committed, answered or not; locks until they end.
    """

    def __init__(self, count: int, times: int = 1) -> None:
        self._count = self._left = count
        self._times = times

    def _next_count(self) -> int:
        return self._count

    def writing(self, connection: Connection, frame: bytes) -> bool:
        if self._times <= 0:
            return False
        self._left -= len(frame)
        if self._left >= 0:
            return False
        connection.emit(frame[: self._left])
        connection.sever()
        self._times -= 1
        self._left = self._next_count()
        return True


class ConnectionCutAtRandom(ConnectionCutAfter):
    """As `ConnectionCutAfter`, `times` times after up to `most` octets each; the same cuts for the same `seed`."""

    def __init__(self, most: int, times: int = 1, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._most = most
        super().__init__(self._next_count(), times)

    def _next_count(self) -> int:
        return self._random.randint(0, self._most)


class ConnectionsCut(Fault):
    """Every connection is cut now. What remains: what was committed; locks until they end."""

    def begin(self, server: Server) -> None:
        for client in list(server.clients):
            client.abort()


class ServerRestart(Fault):
    """The service is restarted: every connection ends, and nobody listens for `away` seconds, or until the fault ends.

    What remains: the ports and everything in the namespace, locks too (a restart of the process frees them; this one is the
    gateway's).
    """

    def __init__(self, away: float = 0.0) -> None:
        self._away = away
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, server: Server) -> None:
        self._task = server.loop.create_task(self._run(server))

    async def end(self) -> None:
        self._over.set()
        if self._task is not None:
            await self._task

    async def _run(self, server: Server) -> None:
        await server.close_ports()
        try:
            await asyncio.wait_for(self._over.wait(), self._away)
        except TimeoutError:
            pass
        finally:
            await server.open_ports()


NAMES: Final[Mapping[str, fault_names.Named[Fault]]] = {
    "server_busy": (ServerBusy, (float, int, str), "SECONDS[,EVERY[,ENTITY]]"),
    "sends_refused": (SendsRefused, (str, str, int, str), "ENTITY[,CONDITION[,TIMES[,MESSAGE_ID]]]"),
    "entity_full": (EntityFull, (str,), "ENTITY"),
    "entity_slow": (EntitySlow, (str, float, float), "ENTITY,BYTES_PER_SECOND[,MILLISECONDS]"),
    "locks_lost": (LocksLost, (str, int), "ENTITY[,TIMES]"),
    "links_detached": (LinksDetached, (str, float), "[ENTITY[,EVERY_SECONDS]]"),
    "connection_cut_after": (ConnectionCutAfter, (int, int), "BYTES[,TIMES]"),
    "connection_cut_at_random": (ConnectionCutAtRandom, (int, int, int), "MOST_BYTES[,TIMES[,SEED]]"),
    "connections_cut": (ConnectionsCut, (), ""),
    "server_restart": (ServerRestart, (float,), "[AWAY_SECONDS]"),
    "mute": (Mute, (str, int, float), "STAGE[,TIMES[,SECONDS]]"),
    "round_trip_added": (RoundTripAdded, (float,), "MILLISECONDS"),
    "answers_delayed": (AnswersDelayed, (float,), "MILLISECONDS"),
    "deliveries_delayed": (DeliveriesDelayed, (float,), "MILLISECONDS"),
    "settlement_answers_lost": (SettlementAnswersLost, (int,), "[TIMES]"),
    "settlement_answers_merged": (SettlementAnswersMerged, (float,), "MILLISECONDS"),
}
"""Name to the fault, the types of its arguments, and how people write them."""


def usage() -> str:
    """Every fault's name with its arguments."""
    return fault_names.usage(NAMES)


def parse(text: str) -> Fault:
    """A fault as a command line names it, `NAME[:ARGUMENT,...]`. Raises ValueError."""
    return fault_names.parse(text, NAMES, last_holds_commas=False)
