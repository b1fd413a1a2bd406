"""From settings to the parts of `dstream dlq`, and to the console's `DeadLetters`. The one place here that names adapters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from common.buses import bus_of, shelves_of
from common.unread import Unread
from desk.dead_letters.counting import MOST_EACH, MOST_EACH_FOR_A_PAGE, counts
from desk.dead_letters.engine import Engine
from desk.dead_letters.service import DeadLetterDesk
from desk.desk import Audit
from desk.documents.messages import DeadLetterCount
from desk.messages.places import Places
from ingester.operating.newer import NewerChanges
from router.settings import RouterSettings

Newers = Callable[[], NewerChanges | None]


def engine_of(settings: Callable[[], RouterSettings], newer: Newers, audit: Audit, audit_file: Path) -> Engine:
    """`newer`: `ingester.commands.changes.newer_changes`, or None where SQL Server is not asked. Journals lie beside `audit_file`."""
    return Engine(settings, shelves_of, newer, audit_file.parent / "replays", audit)


def counted(
    settings: RouterSettings, unread: list[Unread], stop: threading.Event, *, most: int = MOST_EACH
) -> Sequence[DeadLetterCount]:
    return counts(Places(settings), shelves_of, bus_of, unread, stop, most=most)


def dead_letters_of(
    settings: Callable[[], RouterSettings], newer: Newers, audit: Audit, audit_file: Path
) -> DeadLetterDesk:
    """For the console. `settings`: of now, with the tables that patterns match."""
    engine = engine_of(settings, newer, audit, audit_file)
    return DeadLetterDesk(engine, lambda unread, stop: counted(settings(), unread, stop, most=MOST_EACH_FOR_A_PAGE))
