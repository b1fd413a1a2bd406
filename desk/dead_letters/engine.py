"""Plans, replays and purges the dead letters of one entity, from an order to its result. Keeps nothing; `service.py` runs it in the background, and
`dstream dlq` at once. Raises ConfigurationError, NotFound, Conflict, TransientError or PermanentError."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import structlog

from common.bus.browsing import Browser, Lying, Shelf, Shelves
from common.bus.settings import BusSettings
from common.errors import DStreamError, unforeseen
from desk.dead_letters.account import Account
from desk.dead_letters.choosing import Chooses, chooses
from desk.dead_letters.copying import Target, new_id, why_not
from desk.dead_letters.journal import Journal, notes_of
from desk.dead_letters.looking import FIRST_PATIENCE, Seen, look, pages, reached
from desk.dead_letters.order import Order
from desk.dead_letters.purging import Purger
from desk.dead_letters.replaying import Replayer, Rules, remembered
from desk.dead_letters.taking import Pace, Walk
from desk.dead_letters.targets import target_of
from desk.desk import Actor, Audit
from desk.documents.messages import DeadLetterOrder, DeadLetterResult
from desk.messages.places import Place, Places
from ingester.operating.newer import NewerChanges
from router.settings import RouterSettings

REPLAY, PURGE = "dead_letters.replay", "dead_letters.purge"

log = structlog.get_logger("dead_letters")

MANY_BEFORE: Final = 1_000
"""Dead letters before the first that is meant, from which on a plan names their number."""
_DEFERRED: Final = "it is deferred, so that it can only be taken by its number, by whoever deferred it: receive it there and complete it"

Kind = Literal["replay", "purge"]

ACTIONS: Final[Mapping[Kind, str]] = {"replay": REPLAY, "purge": PURGE}


@dataclass(slots=True)
class Watch:
    """How someone follows an operation. `waiting`: so many dead letters are locked by another consumer, and it waits for them."""

    stop: threading.Event = field(default_factory=threading.Event)
    examined: int = 0
    matched: int = 0
    done: int = 0
    waiting: int = 0
    account: Account | None = None
    changed: Callable[[], None] = lambda: None

    def tell(self, *, examined: int | None = None, account: Account | None = None, waiting: int = 0) -> None:
        if examined is not None:
            self.examined = examined
        if account is not None:
            self.account = account
            self.matched, self.done = account.matched, account.done
        self.waiting = waiting
        self.changed()

    def so_far(self) -> DeadLetterResult | None:
        """Of an operation that has failed: what it did before; None if that is nothing."""
        account = self.account
        if account is None or not (account.accounted() or account.doubtful_count):
            return None
        account.complete = False
        return account.result()


@dataclass(frozen=True, slots=True)
class Engine:
    """`settings`: of now. `newer`: None where SQL Server is not asked. `folder`: for journals; beside the audit log."""

    settings: Callable[[], RouterSettings]
    shelves: Callable[[BusSettings], Shelves]
    newer: Callable[[], NewerChanges | None]
    folder: Path
    audit: Audit
    pace: Pace = field(default_factory=Pace)

    def place(self, entity: str) -> Place:
        return Places(self.settings()).of(entity)

    def is_free(self, entity: str) -> None:
        """Raises Conflict while another process of this machine replays them, and PermanentError where the journal cannot be written."""
        place = self.place(entity)
        with (
            closing(self.shelves(place.bus)) as shelves,
            Journal(self.folder, _key(shelves, place.looked_at(dead=True))),
        ):
            pass

    def plan(self, order: DeadLetterOrder, kind: Kind, watch: Watch, *, until: float | None = None) -> DeadLetterResult:
        """What `run` would do. Takes nothing; `until`: the steady clock's time at which to say what was found so far."""
        with self._open(order) as scene:
            account = Account(scene.place.entity, kind, dry_run=True)
            reached(scene.browser, watch.stop, patience=FIRST_PATIENCE if until is None else 0.0)
            if kind == "purge":
                account.done = scene.look(watch, account, until=until).matched
                return account.result()
            target, warnings = target_of(scene.place, scene.shelves, self.settings())
            for text in warnings:
                account.warn(text)
            with self._order() as rows:
                half = None if until is None else (time.monotonic() + until) / 2  # the rest is for judging them
                seen = scene.look(watch, account, met=rows.expect, until=half)
                notes = notes_of(self.folder, scene.key)
                judged = 0
                for page in pages(scene.browser, watch.stop, first=scene.first, until=until):
                    meant = [each for each in page if seen.has(each.sequence)]
                    judged += len(meant)
                    _judge(meant, target, order, rows, account)
                    for each in meant:
                        note = notes.get(each.sequence)
                        if (
                            note is not None
                            and note.id == new_id(each)
                            and not note.sent
                            and not remembered(note, target.window, time.time())
                        ):
                            account.is_doubtful(each.sequence)
                    if judged >= seen.matched:
                        break
                else:
                    account.complete = account.complete and judged >= seen.matched
                if judged < seen.matched:
                    account.warn(
                        f"of {seen.matched:,} that are meant the first {judged:,} were judged in the time for it: nothing is said of the rest"
                    )
            return account.result()

    def run(self, order: DeadLetterOrder, kind: Kind, actor: Actor, watch: Watch) -> DeadLetterResult:
        """Do it, with a line in the audit log before and after."""
        entity = self.place(order.entity).entity
        details: dict[str, Any] = {
            "filter": order.filter.written(),
            **({} if order.sequences is None else {"sequences": order.sequences}),
            **(
                {"safe": order.safe, "most_replays": order.most_replays, "unreadable": order.unreadable}
                if kind == "replay"
                else {}
            ),
        }
        self.audit.write(actor, ACTIONS[kind], entity, "begun", reason=order.reason, **details)
        return self.finish(order, kind, actor, watch, entity)

    def finish(
        self, order: DeadLetterOrder, kind: Kind, actor: Actor, watch: Watch, target: str, **details: Any
    ) -> DeadLetterResult:
        """As `run`, once the line before it is kept. `target`, `details`: of the line after it, which says what came of it whatever that is."""
        account, key = Account(target, kind), ""
        watch.account = account
        try:
            with self._open(order) as scene:
                account.entity, key = scene.place.entity, scene.key
                reached(scene.browser, watch.stop, patience=FIRST_PATIENCE)
                if kind == "replay":
                    self._replay(scene, order, account, watch)
                else:
                    self._purge(scene, actor, order, account, watch)
        except BaseException as error:
            why = error.message if isinstance(error, DStreamError) else unforeseen(error)
            self._end(order, kind, actor, target, "failed", {**details, "error": why, **_figures(account)})
            raise
        told = {**details, **_figures(account), **({"stopped": True} if watch.stop.is_set() else {})}
        if (why_not_kept := self._end(order, kind, actor, target, "done", told)) is not None:
            account.warn(f"the audit log has no line of its end: {why_not_kept}")
        if account.doubtful_count:
            with suppress(DStreamError), Journal(self.folder, key) as journal:  # else the next run reports them too
                journal.reported()
        return account.result()

    def _end(
        self,
        order: DeadLetterOrder,
        kind: Kind,
        actor: Actor,
        target: str,
        outcome: Literal["done", "failed"],
        told: Mapping[str, Any],
    ) -> str | None:
        """Why the line could not be kept. What was done is done, so a person must learn of it all the same."""
        try:
            self.audit.write(actor, ACTIONS[kind], target[:600], outcome, reason=order.reason, **told)
        except DStreamError as error:
            log.error(
                "end of a change not written to the audit log",
                request=actor.request,
                who=actor.who,
                action=ACTIONS[kind],
                target=target[:600],
                outcome=outcome,
                error=error.message,
                hint=error.hint or "make the audit file writable again; its line with `begun` is kept",
            )
            return error.message
        return None

    def _replay(self, scene: Scene, order: DeadLetterOrder, account: Account, watch: Watch) -> None:
        target, warnings = target_of(scene.place, scene.shelves, self.settings())
        for text in warnings:
            account.warn(text)
        with self._order() as rows, Journal(self.folder, scene.key) as journal:
            seen = scene.look(watch, account, met=rows.expect)
            journal.has_room()
            sender = scene.shelves.sender(target.entity)
            with closing(sender):
                replayer = Replayer(
                    target,
                    Rules(order.safe, order.most_replays, order.unreadable),
                    seen,
                    rows,
                    journal,
                    sender,
                    account,
                    watch.stop,
                    tell=lambda: watch.tell(account=account),
                )
                if seen.matched:
                    why = self._walk(scene, seen, account, watch, ordered=True).run(
                        replayer.handle, account.accounted, replayer.ended
                    )
                    _finish(account, seen, why, watch)

    def _purge(self, scene: Scene, actor: Actor, order: DeadLetterOrder, account: Account, watch: Watch) -> None:
        def note(removed: Sequence[dict[str, Any]]) -> None:
            self.audit.write(actor, PURGE, scene.place.entity, "begun", reason=order.reason, removed=list(removed))

        seen = scene.look(watch, account)
        purger = Purger(note, seen, account, tell=lambda: watch.tell(account=account))
        if seen.matched:
            why = self._walk(scene, seen, account, watch, ordered=False).run(
                purger.handle, account.accounted, purger.ended
            )
            _finish(account, seen, why, watch)

    def _walk(self, scene: Scene, seen: Seen, account: Account, watch: Watch, *, ordered: bool) -> Walk:
        return Walk(
            lambda: scene.shelves.taker(scene.shelf),
            scene.browser,
            seen,
            watch.stop,
            ordered=ordered,
            pace=self.pace,
            waiting=lambda held: watch.tell(account=account, waiting=held),
        )

    @contextmanager
    def _open(self, order: DeadLetterOrder) -> Iterator[Scene]:
        place = self.place(order.entity)
        shelves = self.shelves(place.bus)
        try:
            shelf = place.looked_at(dead=True)
            sequences = None if order.sequences is None else frozenset(order.sequences)
            with closing(shelves.browser(shelf)) as browser:
                yield Scene(place, shelves, shelf, browser, chooses(order.filter, sequences), sequences)
        finally:
            shelves.close()

    @contextmanager
    def _order(self) -> Iterator[Order]:
        newer = self.newer()
        try:
            yield Order(newer)
        finally:
            if newer is not None:
                newer.close()


@dataclass(frozen=True, slots=True)
class Scene:
    """The dead letters of one place, and which of them are meant."""

    place: Place
    shelves: Shelves
    shelf: Shelf
    browser: Browser
    chosen: Chooses
    sequences: frozenset[int] | None

    @property
    def key(self) -> str:
        """The same for the same dead letters, whatever the configuration calls them."""
        return _key(self.shelves, self.shelf)

    @property
    def first(self) -> int:
        return min(self.sequences, default=0) if self.sequences is not None else 0

    def look(
        self,
        watch: Watch,
        account: Account,
        *,
        met: Callable[[Lying], None] = lambda lying: None,
        until: float | None = None,
    ) -> Seen:
        """And account for it."""
        seen = look(
            self.browser,
            self.chosen,
            watch.stop,
            met=met,
            deferred=lambda lying: account.leave(lying, _DEFERRED),
            tell=lambda examined: watch.tell(examined=examined),
            until=until,
            first=self.first,
            last=None if self.sequences is None else max(self.sequences, default=0),
        )
        account.matched, account.complete = seen.matched + account.left_count, seen.complete
        if account.dry_run and seen.matched and seen.before >= MANY_BEFORE:
            account.warn(
                f"{seen.before:,} other dead letters lie before the first of these: they are taken and given back, which takes its time"
            )
        return seen


def _key(shelves: Shelves, shelf: Shelf) -> str:
    return f"{shelves.host} {shelf}".lower()


def _why_not(lying: Lying, target: Target, order: DeadLetterOrder) -> str | None:
    return why_not(lying, target, most_replays=order.most_replays, unreadable=order.unreadable)


def _judge(meant: Sequence[Lying], target: Target, order: DeadLetterOrder, rows: Order, account: Account) -> None:
    ready = list[Lying]()
    for lying in meant:
        if (why := _why_not(lying, target, order)) is not None:
            account.leave(lying, why)
        else:
            ready.append(lying)
    for lying, doubt in zip(ready, rows.doubts(ready), strict=True):
        if doubt is not None and order.safe:
            account.leave(lying, doubt)
            rows.left([lying])
            continue
        if doubt is not None:
            account.is_older(lying)
        account.done += 1


def _finish(account: Account, seen: Seen, why: str | None, watch: Watch) -> None:
    """What was meant and not reached."""
    rest = seen.open
    account.complete = seen.complete and rest <= 0
    if rest > 0:
        account.left_count += rest
        told = "it was stopped" if watch.stop.is_set() else why or "they were not reached"
        account.warn(f"{rest:,} of those that were meant stayed where they are: {told}")


def _figures(account: Account) -> dict[str, Any]:
    return {
        "matched": account.matched,
        "replayed" if account.kind == "replay" else "purged": account.done,
        "left": account.left_count,
        "older": account.older_count,
        "doubtful": account.doubtful_count,
        "doubtful_sequences": list(account.doubtful),
    }
