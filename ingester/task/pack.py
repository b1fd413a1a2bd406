"""A Sender that packs changes into messages of another: up to N of one session in each, so that fewer messages are paid for.

Whoever sends through it speaks of changes only: what was accepted and what was refused are changes, never packs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from common.bus import MessageRefused, Sender, SendInterrupted, TimeLeft
from common.message import Message
from common.packing import Parcel, packed


class PackingSender:
    """A `common.bus.Sender`. `most`: changes a message may hold, at least 2."""

    def __init__(self, inner: Sender, most: int) -> None:
        self._inner = inner
        self._most = most

    def batch_bytes(self) -> int:
        return self._inner.batch_bytes()

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        """As the port says. A pack that is refused goes in halves, so that only a change alone ever is."""
        parcels = packed(messages, most=self._most, limit=self._inner.batch_bytes())
        accepted: list[Message] = []
        while parcels:
            try:
                self._inner.send([parcel.message for parcel in parcels], left=left)
                return
            except SendInterrupted as error:
                accepted += _changes(parcels, {id(message) for message in error.accepted})
                error.accepted = tuple(accepted)
                raise
            except MessageRefused as error:
                taken = {id(message) for message in error.accepted}
                accepted += _changes(parcels, taken)
                refused = next(parcel for parcel in parcels if parcel.message is error.refused)
                if len(refused.changes) == 1:
                    error.accepted = tuple(accepted)
                    raise
                parcels = [
                    part for parcel in parcels if id(parcel.message) not in taken for part in _parts(parcel, refused)
                ]

    def close(self) -> None:
        self._inner.close()


def _changes(parcels: Sequence[Parcel], taken: Collection[int]) -> list[Message]:
    """What is in those parcels whose messages have these identities (`id`)."""
    return [change for parcel in parcels if id(parcel.message) in taken for change in parcel.changes]


def _parts(parcel: Parcel, refused: Parcel) -> list[Parcel]:
    return parcel.halves() if parcel is refused else [parcel]
