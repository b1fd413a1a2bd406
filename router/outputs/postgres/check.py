"""What `dstream check` finds of the database: the server, the rights, and each table. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from common.bus.ports import Provision
from common.check import BY_EDITING, Finding, by_hand, fail, ok, warn
from common.errors import PermanentError
from router.outputs.postgres.catalog import table_of, unfit
from router.outputs.postgres.connections import Timed
from router.outputs.postgres.provision import missing_own
from router.outputs.postgres.settings import PostgresSettings
from router.outputs.postgres.statements import Own
from router.outputs.postgres.table import parts_of, quoted

OLDEST: Final = 12
"""The first version with all that is used here."""

_SERVER: Final = (
    "SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding'), pg_is_in_recovery(), "
    "has_database_privilege(current_database(), 'CREATE')"
)
_RIGHTS: Final = (
    "SELECT string_agg(p, ', ') FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p "
    "WHERE NOT has_table_privilege(to_regclass($1), p)"
)
_OTHERS: Final = (
    "SELECT string_agg(conname, ', ' ORDER BY conname) FROM pg_constraint "
    "WHERE conrelid = to_regclass($1) AND contype IN ('f', 'u', 'x')"
)
_UNLOGGED: Final = "SELECT 1 FROM pg_class WHERE oid = to_regclass($1) AND relpersistence = 'u'"
_BY_GRANT: Final = by_hand("the owner of the table grants it: `dstream plan` prints the statements")
_BY_OWNER: Final = by_hand("the owner of the table changes it by the statement of the hint")


def findings(
    connection: Timed, settings: PostgresSettings, places: Sequence[str], provision: Provision
) -> Iterator[Finding]:
    """Raises psycopg.Error."""
    yield from _of_server(connection, settings, provision)
    for place in places:
        yield from _of_table(connection, settings, place, provision)


def _of_server(connection: Timed, settings: PostgresSettings, provision: Provision) -> Iterator[Finding]:
    subject = f"output {settings.name}"
    found = connection.execute(_SERVER).fetchone()
    assert found is not None
    version, encoding, standby, creates = found
    if version < OLDEST:
        yield fail(subject, f"PostgreSQL {version} is too old", f"use {OLDEST} or newer", fix=BY_EDITING)
    elif standby:
        hint = "name all servers of the cluster in host: the one that accepts writes is used"
        yield fail(subject, "the server is a standby and takes no writes", hint, fix=BY_EDITING)
    else:
        yield ok(subject, f"PostgreSQL {version} at {settings.where} accepts the role {settings.user}")
    if encoding != "UTF8":
        text = f"the database has the encoding {encoding}: characters that it does not have are not taken"
        yield warn(
            subject, text, "create the database with the encoding UTF8", fix=by_hand("a database keeps its encoding")
        )
    own = Own(settings.own_schema)
    if missing := missing_own(connection, own):
        yield from _of_missing(subject, missing, provision, creates=creates)
        return
    for name in (own.deleted, own.tables, own.snapshots):
        yield from _of_rights(connection, subject, name)


def _of_missing(subject: str, missing: Sequence[str], provision: Provision, *, creates: bool) -> Iterator[Finding]:
    if provision == "create" and creates:
        yield ok(subject, f"{', '.join(missing)}: a start creates them")
        return
    hint = "create them: `dstream plan` prints the statements, and the grants"
    yield fail(subject, f"{', '.join(missing)}: missing", hint, fix=_BY_GRANT)


def _of_table(connection: Timed, settings: PostgresSettings, place: str, provision: Provision) -> Iterator[Finding]:
    schema, name = parts_of(place)
    subject = f"table {place}"
    try:
        table = table_of(connection, schema, name, settings.position_column)
    except PermanentError as error:
        yield fail(subject, error.message, error.hint, fix=_BY_OWNER)
        return
    if table is None:
        yield from _of_absent(connection, settings, subject, schema, provision)
        return
    if (wrong := unfit(table)) is not None:
        added = provision == "create" and bool(table.key)
        yield ok(subject, f"{wrong[0]}: a start adds it") if added else fail(subject, *wrong, fix=_BY_OWNER)
        return
    rights = list(_of_rights(connection, subject, place))
    yield from rights or [ok(subject, "it can be written")]
    if connection.execute(_UNLOGGED, (place,)).fetchone() is not None:
        text = "it is UNLOGGED: a crash of the server empties it, and what was accepted does not come again"
        yield warn(subject, text, f"ALTER TABLE {place} SET LOGGED", fix=_BY_OWNER)
    others = connection.execute(_OTHERS, (place,)).fetchone()
    if others is not None and others[0] is not None:
        text = f"changes wait where they meet one of its constraints: {others[0]}"
        hint = "drop foreign keys and further unique constraints: rows come table by table, not in the order of transactions"
        yield warn(subject, text, hint, fix=_BY_OWNER)


def _of_absent(
    connection: Timed, settings: PostgresSettings, subject: str, schema: str, provision: Provision
) -> Iterator[Finding]:
    if provision == "verify" or settings.schema_changes != "apply":
        yield fail(subject, "it does not exist", "create it (docs/outputs/postgres.md)", fix=_BY_OWNER)
        return
    yield ok(subject, "it does not exist: a schema event creates it (ingester.shape.schema_events)")
    asked = (
        "SELECT CASE WHEN to_regnamespace($1) IS NULL THEN has_database_privilege(current_database(), 'CREATE') "
        "ELSE has_schema_privilege(to_regnamespace($1)::oid, 'CREATE') END"
    )
    if connection.execute(asked, (quoted(schema),)).fetchone() != (True,):
        yield fail(subject, f"the role {settings.user} may not create it", "GRANT CREATE on its schema", fix=_BY_GRANT)


def _of_rights(connection: Timed, subject: str, name: str) -> Iterator[Finding]:
    lacking = connection.execute(_RIGHTS, (name,)).fetchone()
    if lacking is not None and lacking[0] is not None:
        yield fail(subject, f"the role lacks {lacking[0]} on {name}", f"GRANT {lacking[0]} ON {name}", fix=_BY_GRANT)
