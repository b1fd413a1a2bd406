"""The open write transaction of a database: its catalog, its savepoints, and each statement in it, undone when it fails.

It neither begins nor commits: that is the database's, which has the writer lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from emulators.sqlserver.engine.extension import ChangeObserver, Transaction
from emulators.sqlserver.engine.store import storage
from emulators.sqlserver.engine.store.catalog import Catalog
from emulators.sqlserver.engine.store.links import Link
from emulators.sqlserver.engine.store.table_locks import HeldByTransaction, Saved


@dataclass(slots=True)
class WriteTransaction:
    """`transaction`: as its observer knows it, None where it is not a user's. `observer`: asked each time, as it may come in between."""

    owner: object
    transaction: Transaction | None
    catalog: Catalog
    link: Link
    observer: Callable[[], ChangeObserver | None]
    savepoints: dict[str, tuple[Catalog, Saved]] = field(default_factory=dict)
    """What each savepoint goes back to: the catalog, and what was held by then."""
    depth: int = 0
    """How many statements run inside one another: a procedure that writes runs inside the one that calls it."""
    held: HeldByTransaction = field(init=False)
    """What it keeps others off."""

    def __post_init__(self) -> None:
        self.held = HeldByTransaction(self.owner)

    def save(self, name: str) -> None:
        """A user's savepoint."""
        self.link.execute(f"SAVEPOINT {storage.quote('u_' + name.lower())}")
        self.savepoints[name.lower()] = (self.catalog, self.held.saved())
        self._tell_saved(name)

    def rollback_to(self, name: str) -> None:
        self.link.execute(f"ROLLBACK TO {storage.quote('u_' + name.lower())}")
        self.catalog, held = self.savepoints[name.lower()]
        self.held.back_to(held)
        self._tell_rolled_back(name)

    @contextmanager
    def statement(self) -> Iterator[Link]:
        """What a statement does, undone when it raises."""
        catalog = self.catalog
        self.depth += 1
        mark = f"<statement {self.depth}>"  # no user can name a savepoint so
        self.link.execute("SAVEPOINT statement")
        self._tell_saved(mark)
        try:
            yield self.link
        except BaseException:
            if self.link.raw.in_transaction:
                self.link.execute("ROLLBACK TO statement")
                self.link.execute("RELEASE statement")
            self.catalog = catalog
            self._tell_rolled_back(mark)
            raise
        finally:
            self.depth -= 1
        self.link.execute("RELEASE statement")

    def _tell_saved(self, name: str) -> None:
        observer = self.observer()
        if observer is not None and self.transaction is not None:
            observer.saved(self.transaction, name)

    def _tell_rolled_back(self, name: str) -> None:
        observer = self.observer()
        if observer is not None and self.transaction is not None:
            observer.rolled_back_to(self.transaction, name)
