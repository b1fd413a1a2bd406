"""Transforms: what is done with a change before it is encoded, such as masking a column or leaving a row out. Pure.

A transform may never change which change it is: table, position, operation and key make the message's id and its order. It sends what it
returns; it drops a change by returning None; it sets one aside by returning it with `set_aside`, which is sent as well, in its order, and
which the router dead-letters. Nothing else leaves a change out, and the drain counts what was dropped and set aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from common.cel.filters import FilterFailed
from common.errors import PermanentError
from ingester.change import Change
from ingester.position import Position

_HINT = (
    'correct the filter, or set on_filter_error = "dead_letter": a running ingester takes both over at once; '
    "a provider has no dead letters, and needs a start with the corrected filter"
)


class FilterStops(PermanentError):
    """The table stops before a change on which its filter fails. Another filter may be configured while the ingester runs."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """Changes that were sent to be dead-lettered because the filter failed on them. `why`: of the first one."""

    count: int
    first: Position
    why: str


def set_aside(changes: Iterable[Change]) -> SetAside | None:
    """Those among `changes` that are set aside; None where none is."""
    return together(
        SetAside(1, change.position, change.set_aside) for change in changes if change.set_aside is not None
    )


def together(found: Iterable[SetAside | None]) -> SetAside | None:
    """What several parts set aside, as one."""
    each = [one for one in found if one is not None]
    if not each:
        return None
    first = min(each, key=lambda one: one.first)
    return SetAside(sum(one.count for one in each), first.first, first.why)


class Transform(Protocol):
    """Travels to workers, so it must be picklable. Deterministic and without I/O: a change that is sent again must be the same message."""

    @property
    def name(self) -> str:
        """Its name in errors."""
        ...

    def __call__(self, change: Change) -> Change | None:
        """The change to send in its place, or None to drop it. Raises FilterFailed where a filter decides that the table stops."""
        ...


@dataclass(frozen=True, slots=True)
class Transformed:
    """What is to be sent of a page: `changes`, and the place of each in the page. `end`: how many of the page's changes were transformed.

    `failure`: why the table stops behind these; None where all were transformed.
    """

    changes: Sequence[Change]
    places: Sequence[int]
    end: int
    failure: PermanentError | None = None

    def done(self, sent: int) -> int:
        """How many of the page's changes need nothing more when the first `sent` of `changes` were sent: those and the dropped ones."""
        return self.places[sent] if sent < len(self.places) else self.end


def transformed(changes: Sequence[Change], transforms: Sequence[Transform]) -> Transformed:
    """`changes` through all transforms, in their order, up to one that fails."""
    if not transforms:
        return Transformed(changes, range(len(changes)), len(changes))
    kept, places = list[Change](), list[int]()
    for at, change in enumerate(changes):
        try:
            found = _through(change, transforms)
        except PermanentError as error:
            return Transformed(kept, places, at, error)
        if found is not None:
            kept.append(found)
            places.append(at)
    return Transformed(kept, places, len(changes))


def _through(change: Change, transforms: Sequence[Transform]) -> Change | None:
    """Raises PermanentError."""
    found = change
    for transform in transforms:
        try:
            made = transform(found)
        except FilterFailed as failed:
            raise FilterStops(
                f"filtering changes of {change.table.key}: {failed}, at the change at {change.position}",
                hint=_HINT,
            ) from None
        except Exception as error:
            # The error's text may quote the row's values, so only its type is shown.
            raise _failure(transform, change, f"raised {type(error).__name__}") from error
        if made is None:
            return None
        if _identity(made) != _identity(change):
            raise _failure(transform, change, "changed its table, position, operation or key")
        found = made
    return found


def _identity(change: Change) -> tuple[object, ...]:
    return change.table, change.position, change.operation, change.key


def _failure(transform: Transform, change: Change, why: str) -> PermanentError:
    return PermanentError(
        f"transforming changes of {change.table.key}: transform {transform.name} {why}, at the change at {change.position}",
        hint="fix the transform or remove it, and restart the ingester",
    )
