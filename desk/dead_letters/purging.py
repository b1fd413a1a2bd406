"""Removes dead letters without sending them. Each batch is in the audit log before it is removed: ids and sequence numbers, never a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from common.bus.browsing import Taken, Taker
from common.errors import DStreamError
from desk.dead_letters.account import Account
from desk.dead_letters.looking import Seen
from desk.dead_letters.taking import Visit

Note = Callable[[Sequence[dict[str, Any]]], None]
"""Keeps which are removed next. Raises PermanentError: then they stay."""


class Purger:
    """Handles the visits of a walk."""

    def __init__(self, note: Note, seen: Seen, account: Account, *, tell: Callable[[], None] = lambda: None) -> None:
        self._note, self._seen, self._account, self._tell = note, seen, account, tell

    def ended(self) -> bool:
        return not self._seen.open

    def handle(self, taker: Taker, visits: Sequence[Visit]) -> None:
        taken = [visit.taken for visit in visits]
        self._note([_named(each) for each in taken])
        try:
            lost = taker.complete(taken)
        except DStreamError:
            self._account.warn(
                "an answer to a removal did not come: the audit log names what may be gone without being counted here"
            )
            raise
        still = {each.lying.sequence for each in lost}
        self._account.done += sum(
            self._seen.settle(each.lying.sequence) for each in taken if each.lying.sequence not in still
        )
        self._tell()


def _named(taken: Taken) -> dict[str, Any]:
    return {"sequence": taken.lying.sequence, "message_id": taken.lying.message.message_id}
