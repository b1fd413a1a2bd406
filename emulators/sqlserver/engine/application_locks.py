"""Application locks: who holds which named resource in which mode, and who waits. Knows no SQL; finds no deadlocks.

A resource belongs to a database and to a principal of it, and its name is compared byte by byte. A lock is held for a session
or for its transaction; the two of one session never stand in each other's way.
Source: https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-getapplock-transact-sql
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from emulators.sqlserver import turns
from emulators.sqlserver.engine.locks import Patience
from emulators.sqlserver.results import Cancel, Cancelled

_SIMPLE = {
    "IntentShared": frozenset(("IS",)),
    "Shared": frozenset(("S",)),
    "Update": frozenset(("U",)),
    "IntentExclusive": frozenset(("IX",)),
    "Exclusive": frozenset(("X",)),
}
MODES = {name.lower(): name for name in _SIMPLE}
"""What may be asked for, by lower-case name."""
_CONFLICTS = {
    "IS": frozenset(("X",)),
    "S": frozenset(("IX", "X")),
    "U": frozenset(("U", "IX", "X")),
    "IX": frozenset(("S", "U", "X")),
    "X": frozenset(("IS", "S", "U", "IX", "X")),
}
"""https://learn.microsoft.com/sql/relational-databases/sql-server-transaction-locking-and-row-versioning-guide : compatibility"""
_COVERS = {
    "X": frozenset(("IS", "S", "U", "IX")),
    "U": frozenset(("IS", "S")),
    "S": frozenset(("IS",)),
    "IX": frozenset(("IS",)),
}
_SHOWN = {
    **{parts: name for name, parts in _SIMPLE.items()},
    frozenset(("S", "IX")): "SharedIntentExclusive",
    frozenset(("U", "IX")): "UpdateIntentExclusive",
}

_SHORT = {frozenset(("S", "IX")): "SIX", frozenset(("U", "IX")): "UIX"}


@dataclass(frozen=True, slots=True)
class Owner:
    """A session, or its transaction."""

    session_id: int
    transaction: bool


@dataclass(frozen=True, slots=True)
class Resource:
    database_id: int
    principal: str
    name: str


@dataclass(slots=True)
class _Hold:
    """`parts`: the modes that together are held; `times`: how often it was asked for, and must be released."""

    parts: frozenset[str]
    times: int


class ApplicationLocks:
    """The locks of a server."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holds: dict[Resource, dict[Owner, _Hold]] = {}

    def acquire(
        self, owner: Owner, resource: Resource, mode: str, timeout: float | None, cancelled: Cancel
    ) -> int | None:
        """0 when the lock was free, 1 after waiting; None when `timeout` seconds did not do (None: no end). Raises Cancelled."""
        patience = Patience(timeout)
        waited = 0
        with self._changed:
            while not self._free(owner, resource, mode):
                if patience.looks_up() and cancelled():
                    raise Cancelled
                if patience.over():
                    return None
                waited = 1
                turns.give_up()
                self._changed.wait(patience.left())
            holds = self._holds.setdefault(resource, {})
            held = holds.setdefault(owner, _Hold(frozenset(), 0))
            held.parts = _joined(held.parts | _SIMPLE[mode])
            held.times += 1
            return waited

    def release(self, owner: Owner, resource: Resource) -> bool:
        """Take back one `acquire`; False when the owner holds nothing there."""
        with self._changed:
            held = self._holds.get(resource, {}).get(owner)
            if held is None:
                return False
            held.times -= 1
            if held.times == 0:
                self._forget(owner, resource)
            return True

    def release_transaction(self, session_id: int) -> None:
        """The session's transaction has ended."""
        self._release_all(Owner(session_id, True))

    def release_session(self, session_id: int) -> None:
        """The session has ended, and with it its transaction."""
        self._release_all(Owner(session_id, True))
        self._release_all(Owner(session_id, False))

    def mode(self, owner: Owner, resource: Resource) -> str:
        """What the owner holds, as APPLOCK_MODE calls it."""
        with self._changed:
            held = self._holds.get(resource, {}).get(owner)
            return "NoLock" if held is None else _SHOWN[held.parts]

    def all_held(self) -> list[tuple[Resource, Owner, str, int]]:
        """Every lock: what, whose, its mode in the short form (SIX for shared with intent exclusive), how often."""
        with self._changed:
            return [
                (resource, owner, _SHORT.get(held.parts) or "".join(held.parts), held.times)
                for resource, holds in self._holds.items()
                for owner, held in holds.items()
            ]

    def grantable(self, owner: Owner, resource: Resource, mode: str) -> bool:
        """Whether `acquire` would not have to wait."""
        with self._changed:
            return self._free(owner, resource, mode)

    def _free(self, owner: Owner, resource: Resource, mode: str) -> bool:
        conflicts = {other for part in _SIMPLE[mode] for other in _CONFLICTS[part]}
        others = self._holds.get(resource, {}).items()
        return not any(o.session_id != owner.session_id and held.parts & conflicts for o, held in others)

    def _release_all(self, owner: Owner) -> None:
        with self._changed:
            for resource in [resource for resource, holds in self._holds.items() if owner in holds]:
                self._forget(owner, resource)

    def _forget(self, owner: Owner, resource: Resource) -> None:
        del self._holds[resource][owner]
        if not self._holds[resource]:
            del self._holds[resource]
        self._changed.notify_all()


def _joined(parts: frozenset[str]) -> frozenset[str]:
    """Without the modes that a stronger one contains: S and IX stay two, which is the mode SharedIntentExclusive."""
    return parts - {weaker for part in parts for weaker in _COVERS.get(part, ())}
