"""What `dstream status` could not read, and why: trouble of one store hides nothing of the others. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from common.errors import DStreamError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Unread:
    """`what`: the part that is unknown. `hint`: what a person can do; None where there is nothing to do. `note`: nothing is wrong, it cannot be known
    here."""

    what: str
    why: str
    hint: str | None = None
    note: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" if not self.hint else f"{self.what}: {self.why.rstrip('.')}: {self.hint}"


def by_cause(unread: Sequence[Unread]) -> list[Unread]:
    """Those with the same cause as one: what is away makes many parts unreadable."""
    parts: dict[tuple[str, str | None, bool], list[str]] = {}
    for each in unread:
        parts.setdefault((each.why, each.hint, each.note), []).append(each.what)
    return [Unread(", ".join(dict.fromkeys(whats)), why, hint, note) for (why, hint, note), whats in parts.items()]


def read_or(unread: list[Unread], what: str, read: Callable[[], _T], otherwise: _T) -> _T:
    """What `read` returns; `otherwise` with one more in `unread` where it raises DStreamError."""
    try:
        return read()
    except DStreamError as error:
        unread.append(Unread(what, error.message, error.hint))
        return otherwise
