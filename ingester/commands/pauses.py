"""`dstream pause` and `dstream resume`: tables that are not read until a person says so. No ingester has to run."""

from __future__ import annotations

from dataclasses import dataclass

from common.names import TableName
from ingester.commands.stores import chosen, database
from ingester.operating.pauses import Pause
from ingester.settings import IngesterSettings


@dataclass(frozen=True, slots=True)
class Paused:
    """`changed`: False if it was so already. `pause`: the one that holds now, or that was ended now; None if it was not paused."""

    table: TableName
    changed: bool
    pause: Pause | None


def pause(settings: IngesterSettings, name: str, reason: str | None) -> Paused:
    """`settings`: with exact names. Raises DStreamError."""
    [table] = chosen(settings, [name], settings.streams)
    with database(settings) as stores:
        changed = stores.pauses.pause(table, reason)
        return Paused(table, changed, (stores.pauses.paused() or {}).get(table.key.lower()))


def resume(settings: IngesterSettings, name: str, reason: str | None) -> Paused:
    """As `pause`."""
    [table] = chosen(settings, [name], settings.streams)
    with database(settings) as stores:
        changed = stores.pauses.resume(table, reason)
        return Paused(table, changed, stores.pauses.ended(table.key.lower()) if changed else None)
