"""A Sender that puts up to N changes of one session into each message of another Sender, because messages cost money.

Its callers see changes only: what is accepted or refused is a change, never a pack.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from common.bus.packing import Parcel, packed
from common.bus.ports import MessageRefused, Sender, SendInterrupted, TimeLeft
from common.message import Message


class PackingSender:
    """A `common.bus.ports.Sender`. `most`: changes a message may hold, at least 2."""

    def __init__(self, inner: Sender, most: int) -> None:
        self._inner = inner
        self._most = most

    def batch_bytes(self) -> int:
        return self._inner.batch_bytes()

    def send(self, messages: Sequence[Message], *, left: TimeLeft | None = None) -> None:
        """See the port. A refused pack is sent in halves, so that only a single change is ever reported as refused."""
        parcels = packed(messages, most=self._most, limit=self._inner.batch_bytes())
        accepted: set[int] = set()
        while parcels:
            try:
                self._inner.send([parcel.message for parcel in parcels], left=left)
                return
            except SendInterrupted as error:
                accepted.update(_places(parcels, error.accepted))
                error.accepted = frozenset(accepted)
                raise
            except MessageRefused as error:
                accepted.update(_places(parcels, error.accepted))
                refused = parcels[error.at]
                if len(refused.changes) == 1:
                    error.at, error.accepted = refused.places[0], frozenset(accepted)
                    raise
                parcels = [
                    part
                    for at, parcel in enumerate(parcels)
                    if at not in error.accepted
                    for part in (parcel.halves() if at == error.at else (parcel,))
                ]

    def close(self) -> None:
        self._inner.close()


def _places(parcels: Sequence[Parcel], accepted: Collection[int]) -> Iterator[int]:
    """Places of the changes in the parcels that were accepted."""
    return (place for at in accepted for place in parcels[at].places)
