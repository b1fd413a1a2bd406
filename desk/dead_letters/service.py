"""The port `DeadLetters` of `desk/desk.py`: plans at once, replays and purges in the background, one of an entity at a time.

It keeps the last operations of this process in memory; what must survive is in the journal and in the audit log.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from common.errors import DStreamError, unforeseen
from common.unread import Unread
from desk.dead_letters.engine import Engine, Kind, Watch
from desk.desk import Actor, Conflict, NotFound
from desk.documents.messages import DeadLetterCount, DeadLetterCounts, DeadLetterOrder, DeadLetterResult, Operation
from desk.documents.shape import Unknown
from desk.times import written

MOST_KEPT: Final = 100
PLAN_SECONDS: Final = 10.0
COUNTED_FOR: Final = 60.0
"""Seconds for which a count serves every page that is open."""
UNKNOWN_FOR: Final = 5.0
"""The same for a count from which something is missing."""
_ENDS_WITHIN: Final = 30.0


@dataclass(slots=True)
class _Run:
    id: str
    kind: Kind
    entity: str
    begun_at: str
    watch: Watch = field(default_factory=Watch)
    thread: threading.Thread | None = None
    ended_at: str | None = None
    result: DeadLetterResult | None = None
    error: str | None = None
    remedy: str | None = None

    def document(self) -> Operation:
        state: Literal["running", "done", "failed", "stopped"] = "running"
        if self.ended_at is not None:
            state = "failed" if self.error is not None else "stopped" if self.watch.stop.is_set() else "done"
        return Operation(
            id=self.id,
            kind=self.kind,
            entity=self.entity,
            state=state,
            begun_at=self.begun_at,
            ended_at=self.ended_at,
            examined=self.watch.examined,
            done=self.watch.done,
            result=self.result,
            error=self.error,
            remedy=self.remedy,
        )


class DeadLetterDesk:
    """`counting`: `counting.counts` of the present configuration."""

    def __init__(
        self,
        engine: Engine,
        counting: Callable[[list[Unread], threading.Event], Sequence[DeadLetterCount]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine, self._counting, self._clock = engine, counting, clock
        self._guard = threading.Lock()
        self._runs: OrderedDict[str, _Run] = OrderedDict()
        self._closing = threading.Event()
        self._counting_now = threading.Lock()
        self._counted: tuple[float, DeadLetterCounts] | None = None

    def counts(self) -> DeadLetterCounts:
        """One counting for everybody who asks, which takes seconds at most; the next one a minute later, or after a replay or purge. Where
        something could not be counted, it is counted again after seconds."""
        with self._counting_now:
            known = self._counted
            if known is not None and self._clock() < known[0]:
                return known[1]
            unread, began = list[Unread](), self._clock()
            items = list(self._counting(unread, self._closing))
            unknown = [Unknown(what=each.what, text=each.why, remedy=each.hint) for each in unread]
            found = DeadLetterCounts(items=items, total=len(items), unknown=unknown)
            self._counted = self._clock() + UNKNOWN_FOR if unknown else began + COUNTED_FOR, found
        return found

    def plan(self, order: DeadLetterOrder) -> DeadLetterResult:
        return self._engine.plan(order, "replay", Watch(), until=time.monotonic() + PLAN_SECONDS)

    def replay(self, order: DeadLetterOrder, actor: Actor) -> Operation:
        return self._begin("replay", order, actor)

    def purge(self, order: DeadLetterOrder, actor: Actor) -> Operation:
        return self._begin("purge", order, actor)

    def _begin(self, kind: Kind, order: DeadLetterOrder, actor: Actor) -> Operation:
        entity = self._engine.place(order.entity).entity
        run = _Run(secrets.token_hex(8), kind, entity, _now())
        with self._guard:
            if self._closing.is_set():
                raise Conflict(f"beginning a {kind} of {entity}: the console is stopping")
            for other in self._runs.values():
                if other.entity == entity and other.ended_at is None:
                    raise Conflict(
                        f"beginning a {kind} of {entity}: the {other.kind} {other.id} runs there",
                        hint="wait for its end, or stop it",
                    )
            if kind == "replay" and not order.dry_run:
                self._engine.is_free(order.entity)
            run.thread = threading.Thread(
                target=self._run, args=(run, order, actor), name=f"{kind}-{run.id}", daemon=True
            )
            self._runs[run.id] = run
            ended = [id for id, each in self._runs.items() if each.ended_at is not None]
            for id in ended[: max(0, len(self._runs) - MOST_KEPT)]:
                del self._runs[id]
            run.thread.start()
        return run.document()

    def _run(self, run: _Run, order: DeadLetterOrder, actor: Actor) -> None:
        try:
            if order.dry_run:
                run.result = self._engine.plan(order, run.kind, run.watch)
            else:
                run.result = self._engine.finish(order, run.kind, actor, run.watch, order.entity, operation=run.id)
        except DStreamError as error:
            run.error, run.remedy, run.result = error.message, error.hint, run.watch.so_far()
        except Exception as error:
            run.error, run.remedy = unforeseen(error), "this is a defect of DStream: report it with this text"
        finally:
            self._counted = None
            run.ended_at = _now()

    def operations(self) -> Sequence[Operation]:
        with self._guard:
            return [run.document() for run in reversed(self._runs.values())]

    def operation(self, id: str) -> Operation:
        return self._known(id).document()

    def stop(self, id: str, actor: Actor) -> Operation:
        run = self._known(id)
        run.watch.stop.set()
        return run.document()

    def _known(self, id: str) -> _Run:
        with self._guard:
            if (run := self._runs.get(id)) is None:
                raise NotFound(f"looking for the operation {id[:40]}: this console has begun none of this id")
            return run

    def close(self) -> None:
        """Stop what runs, and wait until what is in flight is finished. Never raises."""
        self._closing.set()
        with self._guard:
            running = [run for run in self._runs.values() if run.ended_at is None]
        for run in running:
            run.watch.stop.set()
        until = time.monotonic() + _ENDS_WITHIN
        for run in running:
            if run.thread is not None:
                run.thread.join(max(0.0, until - time.monotonic()))


def _now() -> str:
    return written(datetime.now(UTC), "milliseconds")
