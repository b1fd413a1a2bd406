"""Where a change is in its source's log, in total order. Only the source knows what a position is made of: all others
compare, keep and show it.

A position is a plain value: immutable, equal and hashable by value, and it travels between driver and workers.
"""

from __future__ import annotations

from typing import Any, Protocol

Place = tuple[str, str, int, str]
"""(identity, lsn, command id, seqval): what messages say of a change's place (docs/messages.md), in the source's own
terms. The same for all time: subscribers keep it.

`identity` distinguishes the change from every other of its table, as part of the message's id; ASCII. `lsn`: where its
transaction was committed; command id and seqval: where it is in that. A plain tuple: one is made for every change.
"""


class Position(Protocol):
    """A place in the log: of a change, or at the border of a transaction. `str` of it is for people."""

    def place(self) -> Place:
        """For a message, or a line of the log."""
        ...

    def __lt__(self, other: Any, /) -> bool: ...

    def __le__(self, other: Any, /) -> bool: ...

    def __gt__(self, other: Any, /) -> bool: ...

    def __ge__(self, other: Any, /) -> bool: ...

    def __hash__(self) -> int: ...
