"""Creates or checks what must be there before the first change: DStream's own tables, and of each target its primary key and position column.

Target tables themselves are made when a schema event says what columns they have. Safe beside another router: all take one lock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import psycopg
import structlog

from common.bus.ports import Provision
from common.errors import EntityMissing, PermanentError
from router.outputs.postgres import definitions
from router.outputs.postgres.catalog import table_of, unfit
from router.outputs.postgres.connections import Timed
from router.outputs.postgres.settings import PostgresSettings
from router.outputs.postgres.statements import LOCK, SESSION, Own, lock_number
from router.outputs.postgres.table import parts_of, quoted

_ORIGIN: Final = (
    "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = 'origin' AND NOT attisdropped"
)

log = structlog.get_logger(__name__)


def missing_own(connection: Timed, own: Own) -> list[str]:
    """Which of DStream's own tables do not exist."""
    names = [own.deleted, own.tables, own.snapshots]
    missing = [name for name in names if connection.execute("SELECT to_regclass($1)", (name,)).fetchone() == (None,)]
    if own.tables not in missing and connection.execute(_ORIGIN, (own.tables,)).fetchone() is None:
        missing.append(f"{own.tables}.origin")
    return missing


def provide(connection: Timed, settings: PostgresSettings, places: Sequence[str], how: Provision) -> None:
    """Raises PermanentError that names all that is wrong; psycopg.Error."""
    if how == "create":
        _create_own(connection, settings)
    wrong = [f"{name} is missing" for name in missing_own(connection, Own(settings.own_schema))]
    for place in places:
        if (problem := _look(connection, settings, place, how)) is not None:
            wrong.append(problem)
    if wrong:
        raise EntityMissing(
            "tables of PostgreSQL are missing or cannot be used: " + "; ".join(wrong),
            hint='fix them, or set router.provision = "create"; `dstream plan` prints the statements',
        )


def _look(connection: Timed, settings: PostgresSettings, place: str, how: Provision) -> str | None:
    """What is wrong with a target; None if nothing. Adds its position column when it may."""
    schema, name = parts_of(place)
    try:
        table = table_of(connection, schema, name, settings.position_column)
    except PermanentError as error:
        return error.message
    if table is None:
        made_later = how == "create" and settings.schema_changes == "apply"
        return None if made_later else f"{place} is missing"
    if (
        how == "create"
        and table.key
        and not table.has_position
        and not any(column.name == settings.position_column for column in table.columns)
    ):
        text = definitions.add_position(table)
        connection.execute(text)
        log.info("column for positions added", table=place, statement=text)
        return None
    found = unfit(table)
    return None if found is None else f"{place}: {found[0]} ({found[1]})"


def _create_own(connection: Timed, settings: PostgresSettings) -> None:
    own = Own(settings.own_schema)
    if not missing_own(connection, own):
        return
    connection.execute("BEGIN")
    try:
        connection.execute(SESSION, (str(max(1, int((connection.until - time.monotonic()) * 1000))),))
        connection.execute(LOCK, (lock_number(own.schema),))
        if connection.execute("SELECT to_regnamespace($1)", (quoted(own.schema),)).fetchone() == (None,):
            connection.execute(definitions.make_schema(own.schema))
        for text in definitions.make_own(own):
            connection.execute(text)
        connection.execute("COMMIT")
    except psycopg.Error:
        if not connection.closed:
            connection.execute("ROLLBACK")
        raise
    log.info("own tables created", schema=own.schema)
