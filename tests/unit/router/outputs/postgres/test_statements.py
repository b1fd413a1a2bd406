"""The SQL: every name is quoted, values are cast without a length, and each write has its guard."""

from __future__ import annotations

import pytest

from router.outputs.postgres import definitions, statements
from router.outputs.postgres.definitions import Sent
from router.outputs.postgres.statements import Own
from router.outputs.postgres.table import MOST_BYTES, Column, Table, identifier, parts_of, quoted
from router.outputs.postgres.types import column_type, expression, wider

OWN = Own('d"s')
TABLE = Table(
    "dbo",
    'per"sons',
    (
        Column("id", "integer", "integer", 1),
        Column("ty%pe", "character varying", "character varying(9)", 0),
        Column("at", "timestamp without time zone", "timestamp(3) without time zone"),
        Column("made", "text", "text", generated=True),
        Column("_p", "bytea", "bytea"),
    ),
    "_p",
)


def test_an_upsert() -> None:
    text = statements.upsert(TABLE, TABLE.layout(("ID", "ty%pe", "At")), OWN)
    assert text.startswith(
        'INSERT INTO "dbo"."per""sons" AS t ("id", "ty%pe", "at", "_p") OVERRIDING SYSTEM VALUE SELECT '
    )
    assert 'json_to_recordset($1::json) AS ("ID" text, "ty%pe" text, "At" text)' in text
    assert "CAST(u.v0 AS integer), CAST(u.v1 AS character varying)" in text
    assert 'FROM "d""s"."deleted_rows" d WHERE d.target = $3' in text
    assert 'ON CONFLICT ("ty%pe", "id") DO UPDATE SET "at" = excluded."at", "_p" = excluded."_p"' in text
    assert text.endswith('WHERE t."_p" IS NULL OR t."_p" <= excluded."_p"')


def test_a_delete_remembers_keys_in_the_order_of_the_primary_key() -> None:
    text = statements.delete(TABLE, OWN)
    assert 't."ty%pe" = u.k0 AND t."id" = u.k1' in text
    assert "ARRAY[CAST(u.k0 AS text), CAST(u.k1 AS text)]" in text
    assert '(t."_p" IS NULL OR t."_p" <= u.p)' in text


def test_names_that_the_server_would_cut_off_are_replaced_in_the_document() -> None:
    long = "n" * (MOST_BYTES + 1)
    table = Table("s", "t", (Column("k", "text", "text", 0), Column(identifier(long, lower=True), "text", "text")), "p")
    layout = table.layout(("k", long))
    assert layout.unknown == ()
    assert statements.field_names(layout) == ("c0", "c1")


def test_the_lock_is_the_same_everywhere_and_fits() -> None:
    assert statements.lock_number('"dbo"."persons"') == 834759313777423186
    assert -(2**63) <= statements.lock_number("x") < 2**63


# Tables


def test_a_layout_finds_columns_by_their_name_or_that_in_lower_case() -> None:
    layout = TABLE.layout(("ID", "TY%PE", "Made", "Other", "id"))
    assert [(name, column.name) for name, column in layout.values] == [("ID", "id"), ("TY%PE", "ty%pe")]
    assert (layout.unknown, layout.missing, layout.key) == (("Other", "id"), (), ("TY%PE", "ID"))
    assert TABLE.layout(("ID", "_p")).unknown == ("_p",)
    assert TABLE.layout(("ID",)).missing == ("ty%pe",)


@pytest.mark.parametrize("parts", [("a", "b"), ('a"."b', 'c"'), ("Ж", "."), ('"', '"')])
def test_a_place_is_taken_apart_as_it_was_made(parts: tuple[str, str]) -> None:
    assert parts_of(quoted(*parts)) == parts


def test_long_identifiers_stay_different() -> None:
    one, other = identifier("ž" * 60 + "1", lower=True), identifier("ž" * 60 + "2", lower=True)
    assert one != other
    assert max(len(one.encode()), len(other.encode())) <= MOST_BYTES
    assert identifier("Persons", lower=True) == "persons"
    assert identifier("Persons", lower=False) == "Persons"


def test_a_table_of_an_event() -> None:
    columns = [Sent("B", "nvarchar(50)", None), Sent("ID", "int", 2), Sent("At", "datetime2(7)", 1)]
    assert definitions.make_table("dbo", "t", columns, "_p", lower=True) == (
        'CREATE TABLE IF NOT EXISTS "dbo"."t" ("b" text, "id" integer, "at" text, "_p" bytea, PRIMARY KEY ("at", "id"))'
    )


def test_changes_of_a_table_take_nothing_away() -> None:
    sent = [Sent("ID", "bigint", 1), Sent("At", "datetime2(6)", None), Sent("New", "bit", None)]
    assert definitions.changes(TABLE, sent, lower=True) == [
        'ALTER TABLE "dbo"."per""sons" ALTER COLUMN "at" TYPE timestamp(6)',
        'ALTER TABLE "dbo"."per""sons" ADD COLUMN IF NOT EXISTS "new" boolean',
    ]


_ODD = [
    {"Name": "a"},
    {"Name": "", "Type": "int"},
    {"Name": "a\0", "Type": "int"},
    {"Name": "a\ud800", "Type": "int"},
    {"Name": "a", "Type": 5},
    {"Name": "a", "Type": "int", "Key": "x"},
    5,
]


@pytest.mark.parametrize(
    "metadata", [{}, {"SchemaChange": 1}, *({"SchemaChange": {"Columns": [column]}} for column in _ODD)]
)
def test_an_event_of_somebody_else(metadata: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="SchemaChange"):
        definitions.sent_columns(metadata)


# Types


@pytest.mark.parametrize(
    ("declared", "key", "type_"),
    [
        ("decimal(38,38)", False, "numeric(38,38)"),
        ("numeric", False, "numeric(18,0)"),
        ("float(24)", False, "real"),
        ("float", False, "double precision"),
        ("nvarchar(max)", False, "text"),
        ("datetime2(7)", False, "timestamp(6)"),
        ("datetime2(7)", True, "text"),
        ("datetime2(3)", True, "timestamp(3)"),
        ("time", False, "time(6)"),
        ("datetimeoffset(0)", False, "timestamptz(0)"),
        ("VARBINARY(20)", False, "bytea"),
        ("my type", False, "text"),
        ("sysname", True, "text"),
    ],
)
def test_types(declared: str, key: bool, type_: str) -> None:
    assert column_type(declared, key=key) == type_


@pytest.mark.parametrize(
    ("present", "needed", "found"),
    [
        ("integer", "bigint", True),
        ("bigint", "integer", False),
        ("numeric(9,2)", "numeric(18,4)", True),
        ("numeric(9,2)", "numeric(9,4)", False),
        ("integer", "numeric(10,0)", True),
        ("bigint", "numeric(10,0)", False),
        ("timestamp(3)", "timestamp(6)", True),
        ("timestamp(3)", "timestamptz(6)", False),
        ("real", "double precision", True),
        ("text", "integer", False),
        ("integer", "text", False),
    ],
)
def test_only_wider_types_are_taken(present: str, needed: str, found: bool) -> None:
    assert wider(present, needed) is found


def test_times_are_cut_and_octets_decoded() -> None:
    assert expression("bytea", "x") == "decode(x, 'base64')"
    assert "WHEN 27 THEN left(x, 26)" in expression("timestamp without time zone", "x")
    assert "WHEN 33 THEN left(x, 26) || right(x, 6)" in expression("timestamp with time zone", "x")
    assert "WHEN 16 THEN left(x, 15)" in expression("time without time zone", "x")
