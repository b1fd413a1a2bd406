from __future__ import annotations

import subprocess
import sys
from itertools import permutations

from ingester.schema.version import SchemaColumn, schema_version
from ingester.shape.mask import mask_of
from ingester.shape.table_shape import TableShape
from ingester.shape.versions import schema_of, version_of
from ingester.source import CapturedColumn

PERSONS = (
    SchemaColumn("ID", "int", 1),
    SchemaColumn("Name", "nvarchar(50)"),
    SchemaColumn("žluťoučký 🐎 \ud83d", "decimal(9,4)"),
)


def test_versions_stay_as_they_are_for_ever() -> None:
    """Consumers keep them: a version that is computed otherwise tells all of them that their columns changed."""
    assert schema_version(()) == "4f53cda18c2b"
    assert schema_version(PERSONS[:2]) == "5550c1a2b121"
    assert schema_version(PERSONS) == "b094f3f05bf5"


def test_the_version_is_the_same_in_another_process() -> None:
    program = "from ingester.schema.version import *; print(schema_version([SchemaColumn('ID','int',1),SchemaColumn('B','xml')]))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.strip() == schema_version([SchemaColumn("ID", "int", 1), SchemaColumn("B", "xml")])


def test_the_order_of_columns_has_no_meaning() -> None:
    assert {schema_version(columns) for columns in permutations(PERSONS)} == {schema_version(PERSONS)}


def test_every_fact_that_a_consumer_sees_counts() -> None:
    versions = {
        schema_version(columns)
        for columns in (
            [SchemaColumn("ID", "int", 1)],
            [SchemaColumn("ID", "int")],
            [SchemaColumn("ID", "int", 2)],
            [SchemaColumn("Id", "int", 1)],
            [SchemaColumn("ID", "bigint", 1)],
            [SchemaColumn("ID", "int", 1), SchemaColumn("A", "int")],
            [SchemaColumn('ID","int",1],["A', "int", 1)],
        )
    }
    assert len(versions) == 7


def test_columns_are_sent_with_their_declared_types_even_if_they_were_dropped_since_but_not_computed_ones() -> None:
    columns = (
        CapturedColumn("ID", "int", 1, key_ordinal=1, declared="int"),
        CapturedColumn("Name", "nvarchar", 2, length=100, declared="nvarchar(50)"),
        CapturedColumn("Twice", "int", 3, computed=True, declared="int"),
        CapturedColumn("Old", "time", 4, gone=True, declared="time(3)"),
        CapturedColumn("Unknown", "varchar", 5),
    )
    assert schema_of(columns) == (
        SchemaColumn("ID", "int", 1),
        SchemaColumn("Name", "nvarchar(50)"),
        SchemaColumn("Old", "time(3)"),
        SchemaColumn("Unknown", "varchar"),
    )


def test_the_version_is_that_of_the_columns_after_the_shape() -> None:
    columns = (
        CapturedColumn("ID", "int", 1, key_ordinal=1, declared="int"),
        CapturedColumn("Email", "nvarchar", 2, length=100, declared="nvarchar(50)"),
        CapturedColumn("Born", "date", 3, declared="date"),
    )
    plain, salted, other = (
        TableShape(excluded=("Email",)),
        TableShape(masks=(("born", mask_of("hash:SHA-256:a")), ("Email", mask_of("redact")))),
        TableShape(masks=(("Born", mask_of("hash:SHA-512:b")),)),
    )
    assert [column.name for column in schema_of(columns, plain)] == ["ID", "Born"]
    assert schema_of(columns, salted)[1:] == (
        SchemaColumn("Email", "nvarchar(50)"),
        SchemaColumn("Born", "nvarchar(max)"),
    )
    assert version_of(columns, salted) == version_of(columns, other)
    assert len({version_of(columns), version_of(columns, plain), version_of(columns, salted)}) == 3
