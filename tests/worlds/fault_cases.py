"""Each fault of either emulator with arguments that make it strike a running pipeline, and a look at whether it did.

SQL Server's are injected into a server that only the ingester uses; the application has one of its own on the same databases. Service
Bus has no such second door, so nobody subscribes while its faults are in force.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from emulators.servicebus.amqp.connection import Connection
from emulators.servicebus.amqp.frames import Frame
from emulators.servicebus.amqp.values import AmqpError, Value
from emulators.servicebus.faults import catalogue as bus
from emulators.servicebus.faults.injection import Fault as BusFault
from emulators.servicebus.faults.injection import Server as BusServer
from emulators.sqlserver.faults import catalogue as sql
from emulators.sqlserver.injection import Fault as SqlFault
from emulators.sqlserver.injection import Server as SqlServer
from emulators.sqlserver.injection import Silence, Stage
from emulators.sqlserver.results import Cancel, Event, LoginRequest, Session
from tests.worlds.world import World

_NOTICEABLE = 0.05
"""Seconds that a statement waits in a fault, and no statement otherwise."""


class SqlStruck(SqlFault):
    """A fault of SQL Server's, and how often it struck."""

    def __init__(self, inner: SqlFault) -> None:
        self._inner = inner
        self.times = 0

    def begin(self, server: SqlServer) -> None:
        self._inner.begin(server)

    def end(self) -> None:
        self._inner.end()

    @property
    def struck(self) -> bool:
        """Whether it did, so far."""
        match self._inner:
            case sql.ServerRestart():
                return self._inner.done.is_set()
            case sql.QueryThatHangs():
                return self._inner.hanging.is_set()
        return self.times > 0

    def login(self, request: LoginRequest) -> None:
        try:
            self._inner.login(request)
        except Exception:
            self.times += 1
            raise

    def statement(self, text: str, session: Session, cancelled: Cancel) -> Iterator[Event]:
        began = time.monotonic()
        try:
            yield from self._inner.statement(text, session, cancelled)
        except Exception:
            self.times += 1
            raise
        if time.monotonic() - began > _NOTICEABLE:
            self.times += 1

    def answer(self, text: str, events: Iterator[Event]) -> Iterator[Event]:
        answered = self._inner.answer(text, events)
        self.times += answered is not events
        return answered

    def finished(self) -> None:
        self._inner.finished()

    def sending(self, count: int) -> int:
        allowed = self._inner.sending(count)
        self.times += allowed < count
        return allowed

    def silent(self, stage: Stage, text: str = "") -> Silence | None:
        silence = self._inner.silent(stage, text)
        self.times += silence is not None
        return silence


class BusStruck(BusFault):
    """A fault of Service Bus's, and how often it struck."""

    def __init__(self, inner: BusFault) -> None:
        self._inner = inner
        self.times = 0

    def begin(self, server: BusServer) -> None:
        if isinstance(self._inner, (bus.ConnectionsCut, bus.LinksDetached)):
            self.times += len(server.clients)
        self.times += isinstance(self._inner, bus.ServerRestart)
        self._inner.begin(server)

    async def end(self) -> None:
        await self._inner.end()

    def arriving(self, secure: bool) -> bool:
        return self._silent(self._inner.arriving(secure))

    def reading(self, connection: Connection, item: bytes | Frame) -> bool:
        return self._silent(self._inner.reading(connection, item))

    def managing(self) -> float | None:
        return self._inner.managing()

    def sending(self, path: str, ids: Collection[Value] = ()) -> AmqpError | None:
        return self._noted(self._inner.sending(path, ids))

    def taking(self, path: str, octets: int) -> None:
        self._inner.taking(path, octets)

    def asking(self, path: str) -> AmqpError | None:
        return self._noted(self._inner.asking(path))

    def settling(self, path: str, session: bool) -> AmqpError | None:
        return self._noted(self._inner.settling(path, session))

    def writing(self, connection: Connection, frame: bytes) -> bool:
        return self._silent(self._inner.writing(connection, frame))

    @property
    def struck(self) -> bool:
        """Whether it did, so far."""
        return self.times > 0

    def _silent(self, silent: bool) -> bool:
        self.times += silent
        return silent

    def _noted(self, failure: AmqpError | None) -> AmqpError | None:
        self.times += failure is not None
        return failure


@dataclass(frozen=True, slots=True)
class Case:
    """A fault as its emulator's command line names it.

    `relogin`: everybody is cut off with it, so that somebody connects. `holds_back`: it keeps what was committed from being captured or read, and
    that is how it is seen to strike. `severs`: what it cuts leaves locks behind, which last until they end. `patience`: seconds until the
    ingester's own deadline finds it out, where that takes long.
    """

    side: str
    text: str
    relogin: bool = False
    holds_back: bool = False
    severs: bool = False
    patience: float = 0.0

    @property
    def name(self) -> str:
        """The fault's own name."""
        return self.text.partition(":")[0]

    def __str__(self) -> str:
        stage = self.text.partition(",")[0] if self.name == "mute" else self.name
        return f"{self.side}.{stage}"

    @contextmanager
    def inject(self, world: World, unfinished: Callable[[], bool]) -> Iterator[Callable[[], bool]]:
        """In force as long as the block lasts; gives a look at whether it struck so far. `unfinished`: something has not arrived."""
        with ExitStack() as stack:
            fault: SqlStruck | BusStruck
            if self.side == "sqlserver":
                stack.enter_context(world.sqlserver.inject(fault := SqlStruck(sql.parse(self.text))))
                if self.relogin:
                    stack.enter_context(world.sqlserver.inject(sql.ServerRestart()))
            else:
                stack.enter_context(world.servicebus.inject(fault := BusStruck(bus.parse(self.text))))
                if self.relogin:
                    stack.enter_context(world.servicebus.inject(bus.ConnectionsCut()))
            yield lambda: unfinished() if self.holds_back else fault.struck


OURS = "cdc|APPLOCK"
"""What every statement of the ingester's holds and none that its connection sends by itself."""

_OPENING = 30.0
"""Seconds: an opening or an answer of Service Bus, or a login, counts as hung before."""
_QUERY = 250.0
"""Seconds: a question to SQL Server may take two minutes before it counts as hung; of two such the second may come after the first."""

CASES: Sequence[Case] = (
    Case("servicebus", "links_detached:*,0.4"),
    Case("servicebus", "connections_cut", severs=True),
    Case("servicebus", "connection_cut_after:1500,4", severs=True),
    Case("servicebus", "connection_cut_at_random:3000,4,7", severs=True),
    Case("servicebus", "locks_lost:*,4"),
    Case("servicebus", "settlement_answers_lost:4"),
    Case("servicebus", "settlement_answers_merged:150"),
    Case("servicebus", "deliveries_delayed:300"),
    Case("servicebus", "answers_delayed:300"),
    Case("servicebus", "round_trip_added:100"),
    Case("servicebus", "sends_refused:*,amqp:internal-error,6"),
    Case("servicebus", "server_busy:60,2"),
    Case("servicebus", "server_restart:0.7", severs=True),
    Case("servicebus", "entity_full:*"),
    Case("servicebus", "entity_slow:*,50000,200"),
    Case("servicebus", "mute:accept", relogin=True, severs=True, patience=_OPENING),
    Case("servicebus", "mute:header", relogin=True, severs=True, patience=_OPENING),
    Case("servicebus", "mute:sasl", relogin=True, severs=True, patience=_OPENING),
    Case("servicebus", "mute:open", relogin=True, severs=True, patience=_OPENING),
    Case("servicebus", "mute:begin", relogin=True, severs=True, patience=_OPENING),
    Case("servicebus", "mute:cbs", relogin=True, severs=True, patience=_OPENING),
    Case("servicebus", "mute:attach", relogin=True, severs=True),
    Case("servicebus", "mute:flow", relogin=True, severs=True, patience=_OPENING),
    Case("servicebus", "mute:transfer", severs=True, patience=_OPENING),
    Case("servicebus", "mute:answer", severs=True),
    Case("servicebus", "mute:disposition", severs=True, patience=_OPENING),
    Case("servicebus", "mute:half_frame", severs=True, patience=_OPENING),
    Case("sqlserver", "connection_cut_after:300,4"),
    Case("sqlserver", f"answer_delayed:0.3,{OURS}"),
    Case("sqlserver", f"deadlock_victim:6,{OURS}"),
    Case("sqlserver", f"session_killed:4,{OURS}"),
    Case("sqlserver", f"answer_broken_off:4,1,{OURS}"),
    Case("sqlserver", f"query_that_hangs:4,{OURS}"),
    Case("sqlserver", "server_restart:0,0.7"),
    Case("sqlserver", "login_refused_for:60,18401", relogin=True),
    Case("sqlserver", "mute:accept,2", relogin=True),
    Case("sqlserver", "mute:prelogin,2", relogin=True, patience=_OPENING),
    Case("sqlserver", "mute:login,2", relogin=True, patience=_OPENING),
    Case("sqlserver", f"mute:query,2,,{OURS}", patience=_QUERY),
    Case("sqlserver", f"mute:answer,2,,{OURS}", patience=_QUERY),
    Case("sqlserver", "capture_failing", holds_back=True),
    Case("sqlserver", "capture_lagging:60", holds_back=True),
    Case("sqlserver", "capture_stopped", holds_back=True),
    Case("sqlserver", "change_table_locked:sales_Orders_CT", holds_back=True),
    Case("sqlserver", "log_times_locked", holds_back=True),
    Case("sqlserver", f"lock_timeout:6,{OURS}"),
)
"""In the order in which two of them come into force, each once the one before has struck: against the stream, so that the second does not
starve the first; and those that take every frame of some kind behind those that take a few."""

NAMES: Mapping[str, set[str]] = {
    "sqlserver": set(sql.NAMES) - {"login_sent_on", "table_locked"},
    "servicebus": set(bus.NAMES),
}
"""What there is to be a case of. A login that is sent on is what Azure's gateway does day by day: it needs a second server, and is no fault. A user's
table that is locked keeps only those waiting who read the table itself, which the stream of its changes never does."""
