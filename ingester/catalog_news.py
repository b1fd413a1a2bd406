"""What a table remembers of the catalog when it has been read again, and what the log is told of it, each thing once."""

from __future__ import annotations

import structlog

from ingester.source import TableState
from ingester.table_state import TrackedTable, absence, drift, superseded_notes

log = structlog.get_logger("ingester")


def take_in(table: TrackedTable, state: TableState) -> None:
    """Note what the catalog says of `table`. What a person may do about its capture instances is told by the ingester that reads it."""
    if (renamed := table.take_in(state)) is not None:
        log.warning(renamed)
    _absence(table, absence(table.name, state))
    if table.lease is not None:
        for note in superseded_notes(table):
            log.info(note)
        _drift(table, drift(state))


def _absence(table: TrackedTable, reason: str | None) -> None:
    if reason != table.absence:
        if reason:
            log.warning(reason)
        else:
            log.info("table found", table=table.name.key)
    table.absence = reason


def _drift(table: TrackedTable, found: str | None) -> None:
    if found is not None and found != table.drift:
        log.warning(found)
    elif found is None and table.drift is not None:
        log.info("captured as it is again", table=table.name.key)
    table.drift = found
