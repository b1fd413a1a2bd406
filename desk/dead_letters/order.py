"""Whether sending a dead letter again would bring an old state after a newer one. Remembers a number of each dead letter, and of so many at most.

A newer change of the same row that is a dead letter itself, and is sent behind the older one by the same replay, is no danger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from common.bus.browsing import Lying
from common.errors import DStreamError
from desk.dead_letters.choosing import ref_of
from ingester.operating.newer import ChangeRef, Newer, NewerChanges, Sent

MOST_REMEMBERED: Final = 250_000
"""Dead letters of one replay that are known to come; with more, a newer change among the rest counts as delivered."""

_NO_CHANGE: Final = "it is no single change as the ingester writes it, so whether a newer one was sent is unknown"
_NOBODY: Final = "SQL Server is not asked here, so whether a newer change of its row was sent is unknown"


class Order:
    """Of one replay. `newer`: None where SQL Server is not asked."""

    def __init__(self, newer: NewerChanges | None) -> None:
        self._newer = newer
        self._coming: set[int] = set()

    def expect(self, lying: Lying) -> None:
        """It will be sent by this replay, if nothing speaks against it."""
        if (
            self._newer is not None
            and len(self._coming) < MOST_REMEMBERED
            and (ref := ref_of(lying.message)) is not None
        ):
            self._coming.add(_mark(ref))

    def doubts(self, letters: Sequence[Lying]) -> Sequence[str | None]:
        """For each, in the order in which they are sent, why it may be older than what was delivered; None if it is not."""
        refs = [ref_of(each.message) for each in letters]
        answers = self._answers([ref for ref in refs if ref is not None])
        found = list[str | None]()
        for ref in refs:
            why = _NO_CHANGE if ref is None else self._doubt(answers[ref])
            if ref is not None:
                self._coming.discard(_mark(ref))
            found.append(why)
        return found

    def left(self, letters: Iterable[Lying]) -> None:
        """They were not sent after all."""
        for each in letters:
            self.expect(each)

    def _answers(self, refs: Sequence[ChangeRef]) -> Mapping[ChangeRef, Newer]:
        if self._newer is None:
            return dict.fromkeys(refs, Newer(Sent.UNKNOWN, why=_NOBODY))
        if not refs:
            return {}
        unknown = Newer(Sent.UNKNOWN, why="SQL Server gave no answer about it")
        try:
            told = self._newer.newer_sent(refs)
        except DStreamError as error:
            return dict.fromkeys(refs, Newer(Sent.UNKNOWN, why=f"SQL Server cannot be asked: {error.message}"))
        return {ref: told.get(ref, unknown) for ref in refs}

    def _doubt(self, answer: Newer) -> str | None:
        if answer.sent is Sent.NO:
            return None
        if answer.sent is Sent.UNKNOWN:
            return answer.why or "whether a newer change of its row was sent is unknown"
        if answer.changes and all(_mark(each) in self._coming for each in answer.changes):
            return None
        at = f" (LSN {answer.lsn})" if answer.lsn else ""
        return f"a newer change of its row was sent{at}"


def _mark(ref: ChangeRef) -> int:
    return hash((ref.source.lower(), _digits(ref.lsn), _digits(ref.seqval), ref.operation_id))


def _digits(text: str) -> str:
    return text.lower().removeprefix("0x")
