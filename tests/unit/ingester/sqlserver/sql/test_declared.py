from __future__ import annotations

import pytest

from ingester.sqlserver.sql.declared import declared


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (("int", 4, 10, 0), "int"),
        (("varchar", 20, 0, 0), "varchar(20)"),
        (("varchar", -1, 0, 0), "varchar(max)"),
        (("nvarchar", 100, 0, 0), "nvarchar(50)"),
        (("nvarchar", -1, 0, 0), "nvarchar(max)"),
        (("varbinary", -1, 0, 0), "varbinary(max)"),
        (("nchar", 6, 0, 0), "nchar(3)"),
        (("decimal", 5, 9, 4), "decimal(9,4)"),
        (("numeric", 17, 38, 0), "numeric(38,0)"),
        (("datetime2", 8, 27, 7), "datetime2(7)"),
        (("time", 3, 8, 0), "time(0)"),
        (("datetime", 8, 23, 3), "datetime"),
        (("float", 8, 53, 0), "float"),
        (("text", 16, 0, 0), "text"),
        (("xml", -1, 0, 0), "xml"),
    ],
)
def test_a_type_as_a_declaration_has_it(facts: tuple[str, int, int, int], expected: str) -> None:
    assert declared(*facts) == expected


def test_what_the_catalog_does_not_say_is_left_out() -> None:
    assert [declared(name, None, None, None) for name in ("varchar", "nvarchar", "decimal", "time")] == [
        "varchar",
        "nvarchar",
        "decimal",
        "time",
    ]


def test_a_rowversion_is_called_what_it_is_captured_as() -> None:
    assert declared("timestamp", 8, 0, 0) == declared("binary", 8, 0, 0) == "binary(8)"
