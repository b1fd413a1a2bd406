"""Writes the changes of one table into its index: one request a chunk, and one more round for documents whose positions must be compared."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from common.bus.ports import MessageRefused, MessageUnwritable, OutOfTime, SendInterrupted, TimeLeft, for_ever
from common.errors import EntityMissing, EntityUnavailable, TransientError
from common.message import Message
from router.outputs.elasticsearch.answers import DONE, Answer, Fate
from router.outputs.elasticsearch.bulk import Place
from router.outputs.elasticsearch.lasting import LastingRaces
from router.outputs.elasticsearch.operations import Chunk, Maker, Operation
from router.outputs.elasticsearch.races import PATIENCE, Races, Turn
from router.outputs.elasticsearch.remarks import Remarks
from router.outputs.elasticsearch.settling import again
from router.outputs.elasticsearch.versions import Versioned

_BATCH: Final = 1024 * 1024
_ROUNDS: Final = 8
"""Times that a document is read and written again before the rest is left to the next send: another writer is at it."""


@dataclass
class _Work:
    """One send. `answers`: of the operations that were tried, by id. `refused`: places of messages, with the server's words."""

    messages: Sequence[Message]
    chunk: Chunk
    until: float
    answers: dict[str, Answer] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    def all_done(self) -> bool:
        return (
            not (self.chunk.unwritable or self.refused)
            and self.answers.keys() == self.chunk.operations.keys()
            and all(answer.fate is Fate.DONE for answer in self.answers.values())
        )

    def accepts(self, at: int) -> bool:
        """Whether the message at this place was accepted."""
        if at in self.chunk.unwritable or at in self.refused:
            return False
        return all(self.answers.get(id, _CONTESTED).fate is Fate.DONE for id in self.chunk.of[at])


class ElasticsearchSender:
    """An OpenableSender of one index."""

    def __init__(self, place: Place, make: Maker, *, seconds: float, remarks: Remarks) -> None:
        self._place, self._make, self._seconds, self._remarks = place, make, seconds, remarks
        self._races = Races()
        self._opened = False

    def batch_bytes(self) -> int:
        return _BATCH

    def open(self) -> None:
        self._open(time.monotonic() + self._seconds)

    def _open(self, until: float) -> None:
        """With an alias the server is asked to make no index by itself. An index that stands for itself is looked up instead."""
        self._place.alias = True
        answer = self._place.probe(until)
        if answer.fate is Fate.MISSING and self._place.exists(until):
            self._place.alias = False
            answer = self._place.probe(until)
        if answer.fate is not Fate.STALE:
            self._raise_for_all(answer)
            busy = answer.fate is Fate.BUSY
            raise SendInterrupted(f"opening {self._place.name}: {answer.words}", hint=answer.hint, throttled=busy)
        self._opened = True

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        seconds = min((left or for_ever)(), self._seconds)
        if seconds <= 0:
            raise OutOfTime(f"writing to {self._place.name}: no time is left")
        work = _Work(messages, self._make(messages), time.monotonic() + seconds)
        fault: TransientError | None = None
        try:
            if not self._opened:
                self._open(work.until)
            self._write(work, list(work.chunk.operations.values()), {})
        except TransientError as error:
            fault = error
        accepted, first = self._accepted(work)
        self._remarks.of(self._place.name, work.chunk, accepted)
        self._conclude(work, fault, accepted, first)

    def close(self) -> None:
        self._opened = False

    def _write(self, work: _Work, operations: Sequence[Operation], versions: Mapping[str, Versioned]) -> None:
        """Until each is written, refused, or known to be older than its document; or races on in the next send. Raises TransientError."""
        contested, turn, lasting = 0, Turn(work.until), LastingRaces(self._place, work.until)
        while operations and contested < _ROUNDS:
            found = self._place.write([each.lines(versions.get(each.id)) for each in operations], work.until)
            work.answers |= {each.id: answer for each, answer in zip(operations, found, strict=True)}
            self._races.over(each.id for each in operations if work.answers[each.id].fate is not Fate.RACED)
            if all(answer is DONE for answer in found):
                return
            stale = [each for each in operations if work.answers[each.id].fate is Fate.STALE]
            versions = self._settled(work, stale) if stale else {}
            contested += bool(versions)
            raced, refused = self._lost(work, operations, lasting)
            if raced and not turn.wait(min(raced.values())):
                raced = {}
            operations = [*(each for each in stale if each.id in versions), *raced, *_older(work, refused)]

    def _lost(
        self, work: _Work, operations: Sequence[Operation], lasting: LastingRaces
    ) -> tuple[Mapping[Operation, float], Sequence[Operation]]:
        """Those of `operations` that have lost a race, with the seconds since when; and those that are refused."""
        raced, refused = dict[Operation, float](), list[Operation]()
        for each in operations:
            answer = work.answers[each.id]
            if answer.fate is Fate.REFUSED:
                refused.append(each)
            elif answer.fate is Fate.RACED:
                age = self._races.lost(each.id, answer.words)
                if age < PATIENCE:
                    raced[each] = age
                elif (slow := lasting.answer(answer)) is not None:
                    work.answers[each.id] = slow
                else:
                    refused.append(each)
        return raced, refused

    def _settled(self, work: _Work, stale: Sequence[Operation]) -> Mapping[str, Versioned]:
        """Those of `stale` that must be written after all, with their versions. The others are done."""
        compared = [each.id for each in stale if each.position is not None]
        found = self._place.find(compared, work.until) if compared else {}
        versions = {}
        for each in stale:
            version = again(each, work.answers[each.id], found.get(each.id))
            if version is None:
                work.answers[each.id] = DONE
            else:
                versions[each.id] = version
        return versions

    def _conclude(self, work: _Work, fault: TransientError | None, accepted: set[int], first: set[int]) -> None:
        """Raises what `OpenableSender.send` does, unless all is accepted."""
        if len(accepted) == len(work.messages):
            return
        for answer in work.answers.values():
            self._raise_for_all(answer)
        refused = [at for at in sorted(first) if at in work.chunk.unwritable or at in work.refused]
        if refused:
            raise self._refusal(work, refused[0], accepted)
        if fault is not None:
            busy = getattr(fault, "throttled", False)
            raise SendInterrupted(fault.message, hint=fault.hint, accepted=accepted, throttled=busy) from fault
        failed = [answer for answer in work.answers.values() if answer.fate in (Fate.BUSY, Fate.LATER)]
        raced = next((answer for answer in work.answers.values() if answer.fate is Fate.RACED), None)
        if raced is not None and not failed:
            raise OutOfTime(f"writing to {self._place.name}: {raced.words}: others have their turn", accepted=accepted)
        worst = next((each for each in failed if each.fate is Fate.BUSY), failed[0] if failed else _CONTESTED)
        raise SendInterrupted(
            f"writing to {self._place.name}: {worst.words}",
            hint=worst.hint,
            accepted=accepted,
            throttled=worst.fate is Fate.BUSY,
        )

    def _accepted(self, work: _Work) -> tuple[set[int], set[int]]:
        """Of each session what is accepted before anything that is not; and the first one that is not."""
        if work.all_done():
            return set(range(len(work.messages))), set()
        accepted, first, ended = set[int](), set[int](), set[str | None]()
        for at, message in enumerate(work.messages):
            if message.session_id in ended:
                continue
            if work.accepts(at):
                accepted.add(at)
            else:
                first.add(at)
                ended.add(message.session_id)
        return accepted, first

    def _refusal(self, work: _Work, at: int, accepted: set[int]) -> MessageRefused:
        if (reason := work.chunk.unwritable.get(at)) is not None:
            return MessageUnwritable(self._place.name, work.messages[at], reason, at=at, accepted=accepted)
        words = f"was refused: {work.refused[at]}"
        return MessageRefused(self._place.name, work.messages[at], words, at=at, accepted=accepted)

    def _raise_for_all(self, answer: Answer) -> None:
        """Raises for an answer that any message would get."""
        if answer.fate is Fate.MISSING:
            self._opened = False
            raise EntityMissing(
                f"writing to {self._place.name}: there is no such index ({answer.words})", hint=answer.hint
            )
        if answer.fate is Fate.UNFIT:
            self._opened = False
            raise EntityUnavailable(f"writing to {self._place.name}: {answer.words}", hint=answer.hint)


def _older(work: _Work, refused: Sequence[Operation]) -> list[Operation]:
    """What is written in place of `refused`: the change before, if it is in the same send."""
    found = list[Operation]()
    for each in refused:
        work.refused[each.at] = work.answers[each.id].words
        if (older := work.chunk.without(each)) is not None:
            found.append(older)
    return found


_CONTESTED = Answer(Fate.LATER, "another writer changes the same documents", "two outputs must not write to one index")
