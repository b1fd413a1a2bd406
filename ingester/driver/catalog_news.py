"""What a table remembers of the catalog when it has been read again, how old that is, and what the log is told of it, each thing once."""

from __future__ import annotations

import structlog

from common.clock import SteadyClock
from common.errors import DStreamError
from ingester.driver.tables import TrackedTable, drift, superseded_notes
from ingester.source import Hints, TableState

log = structlog.get_logger("ingester")

_CATALOG_SECONDS = 30.0
"""How old the list of capture instances may be: a new one is filled beside the old for far longer."""


class CatalogAge:
    """When the list of capture instances is due to be read again, and whether the server refuses to tell it. `clock`: the steady clock.

    A list that is refused, as behind an ALTER TABLE of one table, is gone on with: a probe notices an instance that is made or dropped,
    and a page a column that is altered.
    """

    def __init__(self, clock: SteadyClock) -> None:
        self._clock = clock
        self._read_at = self._refused_at = float("-inf")
        self._refusal: DStreamError | None = None
        self._told = False

    def due(self, *, missing: bool) -> bool:
        """`missing`: there are tables whose capture instances are not known."""
        return self.may_ask and (missing or self._clock() - self._read_at >= _CATALOG_SECONDS)

    @property
    def may_ask(self) -> bool:
        """Not soon after a refusal: whoever asks waits for a lock."""
        return self._clock() - self._refused_at >= _CATALOG_SECONDS

    @property
    def refused(self) -> bool:
        """Whether it was refused when it was last asked for."""
        return self._refusal is not None

    def read(self) -> None:
        if self._told:
            log.info("the list of capture instances was read again")
        self._read_at, self._refused_at = self._clock(), float("-inf")
        self._refusal, self._told = None, False

    def refuse(self, error: DStreamError) -> None:
        """It is gone on with what is known of it."""
        self._refusal, self._refused_at = error, self._clock()

    def outdated(self) -> None:
        """What is known of it may not hold."""
        self._read_at = self._refused_at = float("-inf")

    def tell(self) -> None:
        """Say once that it is refused, where all else is answered."""
        if self._refusal is not None and not self._told:
            self._told = True
            log.warning(
                "the list of capture instances cannot be read, using the known ones, retrying",
                error=self._refusal.message,
                hint=self._refusal.hint,
            )


def take_in(table: TrackedTable, state: TableState, hints: Hints) -> None:
    """Note what the catalog says of `table`. What a person may do about its capture instances is told by the ingester that reads it."""
    if (renamed := table.take_in(state)) is not None:
        log.warning(renamed)
    _absence(table, hints.absence(table.name, state))
    if table.lease is not None:
        for note in superseded_notes(table, hints):
            log.info(note)
        _drift(table, drift(state, hints, table.offset))


def _absence(table: TrackedTable, reason: str | None) -> None:
    if reason != table.absence:
        if reason:
            read = table.offset is not None
            (log.error if read else log.warning)(f"{reason}; it is looked for again on later passes")
        else:
            log.info("table found", table=table.name.key)
    table.absence = reason


def _drift(table: TrackedTable, found: str | None) -> None:
    if found is not None and found != table.drift:
        log.warning(found)
    elif found is None and table.drift is not None:
        log.info("capture instance matches the table again", table=table.name.key)
    table.drift = found


def note_held(table: TrackedTable, locked: str | None, hint: str) -> None:
    """Tell once that a table is not read because somebody holds its change table, and once that it is over."""
    if locked is not None and not table.held:
        log.warning(
            "change table is locked by another session, retrying",
            table=table.name.key,
            change_table=locked,
            hint=hint,
        )
    elif table.held and locked is None:
        log.info("change table is no longer locked", table=table.name.key)
    table.held = locked is not None


class CaptureHold:
    """Whether how far capture has come is kept from readers, by a transaction of its own; told once, and its end once."""

    def __init__(self) -> None:
        self._held = False

    def note(self, *, held: bool, hint: str) -> None:
        if held and not self._held:
            log.warning(
                "capture holds the log's times, going on up to what it had captured before",
                hint=hint,
            )
        elif self._held and not held:
            log.info("capture no longer holds the log's times")
        self._held = held
