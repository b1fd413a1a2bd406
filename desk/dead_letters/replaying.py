"""Sends dead letters again: takes each under its lock, writes down that it will be sent, sends a copy, and completes it. In their order.

After a kill at any point the next run knows what may have been sent. A copy has the same id then, so the bus drops the second one while it remembers
the first; what was perhaps sent longer ago is reported. It refuses to overtake: where a batch cannot be sent, all is given back and taken again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from common.bus.browsing import Lying, Taken, Taker
from common.bus.packing import is_pack
from common.bus.ports import MessageRefused, Sender, SendInterrupted
from common.errors import TransientError
from common.retry import Backoff
from desk.dead_letters.account import Account
from desk.dead_letters.copying import Target, copy_of, new_id, why_not
from desk.dead_letters.journal import Journal, Note, forget_old
from desk.dead_letters.looking import Seen
from desk.dead_letters.order import Order
from desk.dead_letters.taking import Visit

LEAST_LOCK: Final = 3.0
"""Seconds that a lock must still last when its dead letter is sent."""
SPARE: Final = 30.0
"""Seconds by which the window of duplicate detection counts as shorter: clocks differ, and a send takes its time."""
_PATIENCE: Final = 20.0
_AGAIN: Final = Backoff(first=0.2, longest=4.0)


@dataclass(frozen=True, slots=True)
class Rules:
    """`safe`: leave what may be older than what was delivered. `unreadable`: send also what the router could not read."""

    safe: bool
    most_replays: int
    unreadable: bool = False


class Replayer:
    """Handles the visits of a walk."""

    def __init__(
        self,
        target: Target,
        rules: Rules,
        seen: Seen,
        order: Order,
        journal: Journal,
        sender: Sender,
        account: Account,
        stop: threading.Event,
        *,
        clock: Callable[[], float] = time.time,
        tell: Callable[[], None] = lambda: None,
    ) -> None:
        self._target, self._rules, self._order, self._journal = target, rules, order, journal
        self._seen = seen
        self._sender, self._account, self._stop = sender, account, stop
        self._clock, self._tell = clock, tell
        self._uncompleted: set[int] = set()
        self._before = set(journal.notes)
        self._doubted = set(journal.doubtful)
        for sequence in sorted(self._doubted):  # sent by a run that was killed before it could report them
            account.is_doubtful(sequence)
        journal.done(forget_old(journal.notes, clock()))

    def ended(self) -> bool:
        """Whether nothing remains to be done."""
        return not self._seen.open and not self._uncompleted

    def handle(self, taker: Taker, visits: Sequence[Visit]) -> None:
        """Raises TransientError when all must be given back, to be taken again in order; PermanentError when nothing can be sent or written."""
        complete, ready, left = list[Taken](), list[Visit](), list[Taken]()
        for visit in visits:
            lying = visit.taken.lying
            if self._seen.settled(lying.sequence) and lying.sequence not in self._uncompleted:
                left.append(visit.taken)
            elif (note := self._note(lying)) is not None and note.sent:
                complete.append(visit.taken)
            elif (why := self._why_not(lying)) is not None:
                self._leave(visit, why)
                left.append(visit.taken)
            else:
                ready.append(visit)
        sending = self._in_order(ready, left)
        taker.put_aside(left)
        if complete:
            self._complete(taker, complete)
        if sending:
            self._send(taker, sending)
        self._tell()

    def _note(self, lying: Lying) -> Note | None:
        """Numbers begin again where an entity was made again: then the note is of another dead letter."""
        note = self._journal.notes.get(lying.sequence)
        if note is not None and note.id != new_id(lying):
            self._journal.done([lying.sequence])
            self._before.discard(lying.sequence)
            return None
        return note

    def _why_not(self, lying: Lying) -> str | None:
        rules = self._rules
        return why_not(lying, self._target, most_replays=rules.most_replays, unreadable=rules.unreadable)

    def _leave(self, visit: Visit, why: str) -> None:
        if self._seen.settle(visit.taken.lying.sequence):
            self._account.leave(visit.taken.lying, why)

    def _in_order(self, ready: Sequence[Visit], left: list[Taken]) -> Sequence[Visit]:
        sending = list[Visit]()
        for visit, doubt in zip(ready, self._order.doubts([each.taken.lying for each in ready]), strict=True):
            if doubt is not None and self._rules.safe:
                self._leave(visit, doubt)
                self._order.left([visit.taken.lying])
                left.append(visit.taken)
                continue
            if doubt is not None and self._seen.told(visit.taken.lying.sequence):
                self._account.is_older(visit.taken.lying)
            sending.append(visit)
        return sending

    def _send(self, taker: Taker, visits: Sequence[Visit]) -> None:
        if any(visit.taken.lock_left() < LEAST_LOCK for visit in visits):
            self._order.left([visit.taken.lying for visit in visits])
            raise TransientError("sending dead letters again: locks end too soon", hint="they are taken again")
        letters = [visit.taken.lying for visit in visits]
        now = self._clock()
        notes = self._journal.notes
        self._doubt(
            [
                each.sequence
                for each in letters
                if (note := notes.get(each.sequence)) is not None and not remembered(note, self._target.window, now)
            ]
        )
        self._journal.intend([(each.sequence, new_id(each)) for each in letters], now)
        accepted, trouble = self._send_all(visits)
        self._journal.sent([each.lying.sequence for each in accepted])
        for each in accepted:
            self._seen.settle(each.lying.sequence)
            self._account.done += 1
            self._account.packs += is_pack(each.lying.message)
            self._uncompleted.add(each.lying.sequence)
        if accepted:
            self._complete(taker, accepted)
        if trouble is not None:
            done = {each.lying.sequence for each in accepted}
            self._order.left([each for each in letters if each.sequence not in done])
            raise trouble

    def _send_all(self, visits: Sequence[Visit]) -> tuple[Sequence[Taken], TransientError | None]:
        """Those whose copies were accepted; and why not all others were, unless they were refused and left."""
        rest, accepted = list(visits), list[Taken]()
        began, attempt = time.monotonic(), 0
        while rest:
            try:
                self._sender.send([copy_of(each.taken.lying) for each in rest], left=_lock_of(rest))
            except MessageRefused as error:
                accepted += [rest[at].taken for at in sorted(error.accepted)]
                self._refused(rest[error.at], error.words)
                gone = {error.at, *error.accepted}
                rest = [each for at, each in enumerate(rest) if at not in gone]
            except SendInterrupted as error:
                accepted += [rest[at].taken for at in sorted(error.accepted)]
                rest = [each for at, each in enumerate(rest) if at not in error.accepted]
                self._interrupted(rest, error)
                attempt += 1
                over = time.monotonic() - began > _PATIENCE or _lock_of(rest)() < LEAST_LOCK if rest else False
                if over or (rest and self._stop.wait(_AGAIN.delay(attempt))):
                    return accepted, error
            else:
                accepted += [each.taken for each in rest]
                rest = []
        return accepted, None

    def _interrupted(self, rest: Sequence[Visit], error: SendInterrupted) -> None:
        """Nothing is in doubt where the namespace throttled; otherwise some may have been accepted, and only duplicate detection knows."""
        if error.throttled or self._target.window is not None:
            return
        self._doubt([each.taken.lying.sequence for each in rest])

    def _doubt(self, sequences: Sequence[int]) -> None:
        new = [sequence for sequence in sequences if sequence not in self._doubted]
        self._journal.doubt(new)
        for sequence in new:
            self._doubted.add(sequence)
            self._account.is_doubtful(sequence)

    def _refused(self, visit: Visit, words: str) -> None:
        lying = visit.taken.lying
        self._journal.done([lying.sequence])
        if self._seen.settle(lying.sequence):
            self._account.leave(lying, f"{self._target.name} refuses it: it {words}")

    def _complete(self, taker: Taker, taken: Sequence[Taken]) -> None:
        """What was sent. One whose lock was lost comes again, and is completed then."""
        lost = {each.lying.sequence for each in taker.complete(taken)}
        gone = [each.lying for each in taken if each.lying.sequence not in lost]
        for lying in gone:
            self._count_of_before(lying)
        self._journal.done([each.sequence for each in gone])

    def _count_of_before(self, lying: Lying) -> None:
        """One that a run before this has sent counts now."""
        if lying.sequence in self._uncompleted:
            self._uncompleted.discard(lying.sequence)
        elif lying.sequence in self._before:
            self._seen.settle(lying.sequence)
            self._account.done += 1


def remembered(note: Note, window: timedelta | None, now: float) -> bool:
    """Whether the bus still drops a second copy."""
    return window is not None and 0 <= now - note.at < max(window.total_seconds() - SPARE, 0)


def _lock_of(visits: Sequence[Visit]) -> Callable[[], float]:
    return lambda: min((each.taken.lock_left() for each in visits), default=0.0)
