"""What an output on PostgreSQL creates and needs, and the statements for a person who may run them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from common.bus.ports import Provision
from router.outputs.port import Planned, Stream
from router.outputs.postgres.definitions import make_own, make_schema
from router.outputs.postgres.places import tables_of
from router.outputs.postgres.settings import PostgresSettings
from router.outputs.postgres.statements import Own
from router.outputs.postgres.table import parts_of, quoted

_WRITES = "SELECT, INSERT, UPDATE, DELETE"


def planned(settings: PostgresSettings, streams: Sequence[Stream], provision: Provision) -> Planned:
    own, places = Own(settings.own_schema), tables_of(streams)
    schemas = list(dict.fromkeys(parts_of(place)[0] for place in places))
    applies = settings.schema_changes == "apply"
    creates = [f"schema {quoted(own.schema)} with {own.deleted}, {own.tables} and {own.snapshots}"]
    if applies:
        creates += [f"table {place}, when a schema event says its columns" for place in places]
    needs = [f"CONNECT on database {quoted(settings.database)}", f"USAGE on schema {quoted(own.schema)}"]
    needs += [f"{_WRITES} on the tables of schema {quoted(own.schema)}"]
    needs += [f"USAGE{', CREATE' if applies else ''} on schema {quoted(schema)}" for schema in schemas]
    needs += [f"ownership of {place}" if applies else f"{_WRITES} on {place}" for place in places]
    if provision == "create":
        needs.append(f"CREATE on database {quoted(settings.database)}, unless the schemas exist")
    return Planned(creates if provision == "create" else [], needs, _script(settings, own, schemas, places))


def _script(settings: PostgresSettings, own: Own, schemas: Sequence[str], places: Sequence[str]) -> str:
    role = quoted(settings.user)
    applies = settings.schema_changes == "apply"
    lines = [
        f"GRANT CONNECT ON DATABASE {quoted(settings.database)} TO {role}",
        make_schema(own.schema),
        *make_own(own),
    ]
    lines += [f"GRANT USAGE ON SCHEMA {quoted(own.schema)} TO {role}"]
    lines += [f"GRANT {_WRITES} ON ALL TABLES IN SCHEMA {quoted(own.schema)} TO {role}"]
    for schema in schemas:
        lines += [
            make_schema(schema),
            f"GRANT USAGE{', CREATE' if applies else ''} ON SCHEMA {quoted(schema)} TO {role}",
        ]
    if not applies:
        lines += [f"GRANT {_WRITES} ON {place} TO {role}" for place in places]
    return "".join(f"{line};\n" for line in lines)
