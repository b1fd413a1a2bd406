from __future__ import annotations

import pytest

from ingester.sqlserver.literals import batch, rendered
from ingester.sqlserver.sql.changes import P

LSN = bytes(range(10))


def test_values_are_parameters_and_the_text_is_the_same_whatever_they_are() -> None:
    text = f"SELECT TOP ({P}) * FROM t WHERE lsn >= {P} AND name = {P}"
    one, other = (rendered(text, values) for values in ((5, LSN, "a"), (7, LSN[::-1], "b's")))
    assert one == (
        "EXEC sys.sp_executesql N'SELECT TOP (@p1) * FROM t WHERE lsn >= @p2 AND name = @p3', "
        "N'@p1 int, @p2 binary(10), @p3 nvarchar(4000)', 5, 0x00010203040506070809, N'a'"
    )
    assert other.endswith("7, 0x09080706050403020100, N'b''s'")
    assert one.partition("int, @p2")[0] == other.partition("int, @p2")[0]


@pytest.mark.parametrize(
    ("value", "kind", "literal"),
    [
        (LSN, "binary(10)", "0x00010203040506070809"),
        (b"abc", "varbinary(max)", "0x616263"),
        (-1, "int", "-1"),
        (True, "int", "1"),
        (2**31 - 1, "int", "2147483647"),
        (2**31, "bigint", "2147483648"),
        (None, "nvarchar(4000)", "NULL"),
        ("x" * 4000, "nvarchar(4000)", f"N'{'x' * 4000}'"),
        ("x" * 4001, "nvarchar(max)", f"N'{'x' * 4001}'"),
    ],
)
def test_a_value_has_the_type_of_the_columns_it_is_compared_with(value: object, kind: str, literal: str) -> None:
    assert rendered(f"SELECT {P}", (value,)) == f"EXEC sys.sp_executesql N'SELECT @p1', N'@p1 {kind}', {literal}"


def test_names_and_words_in_a_text_are_quoted_once_more() -> None:
    sent = rendered(f"SELECT [it's 100%s] FROM [a]]b] WHERE x = N'y' AND z = {P}", (1,))
    assert "N'SELECT [it''s 100%s] FROM [a]]b] WHERE x = N''y'' AND z = @p1'" in sent


def test_a_text_without_parameters_goes_as_it_is() -> None:
    assert rendered("SELECT N'it''s'", ()) == "SELECT N'it''s'"


def test_statements_of_a_batch_do_not_know_of_each_other() -> None:
    one = (f"SELECT {P}", (1,))
    assert batch([one, ("SELECT 2", ()), one]) == f"{rendered(*one)};\nSELECT 2;\n{rendered(*one)}"


@pytest.mark.parametrize("parameters", [(), (1, 2)])
def test_a_wrong_number_of_parameters_is_refused(parameters: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="1 parameters are needed"):
        rendered(f"SELECT {P}", parameters)


def test_what_has_no_type_here_is_refused() -> None:
    with pytest.raises(TypeError, match="no literal for float"):
        rendered(f"SELECT {P}", (1.5,))
