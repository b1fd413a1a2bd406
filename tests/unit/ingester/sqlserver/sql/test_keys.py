"""Keys as text, and as the parameters that they become."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import PermanentError
from ingester.sqlserver.sql.changes import P
from ingester.sqlserver.sql.history.keys import KeyColumn, as_parameter, known_form, parameters

ID = KeyColumn("ID", "int", "int", None, descending=False)
NAME = KeyColumn("Name", "nvarchar", "nvarchar(20)", "Latin1_General_CI_AS", descending=True)
CODE = KeyColumn("Code", "varchar", "varchar(9)", "Cyrillic_General_CI_AS", descending=False)
PLACE = KeyColumn("Place", "hierarchyid", "hierarchyid", None, descending=False)


def written(column: KeyColumn, value: object) -> str:
    return column.title + known_form(column).write(value)


@given(st.binary(max_size=40).filter(lambda data: len(data) % 2 == 0))
def test_any_utf_16_reads_back_to_the_same_bytes(data: bytes) -> None:
    """Also half of a surrogate pair, control characters, and text that looks like hexadecimal."""
    text = written(NAME, data)
    text.encode("utf-8")
    (parameter,) = parameters([NAME], (text,), "dbo.T")
    assert bytes.fromhex(parameter.removeprefix("0x")) == data


def test_people_can_read_ordinary_text() -> None:
    assert written(NAME, "O'Neil ".encode("utf-16-le")) == "Name desc=O'Neil "
    assert written(NAME, "0x41".encode("utf-16-le")) == "Name desc=0x3000780034003100"
    assert written(NAME, b"") == "Name desc="


@pytest.mark.parametrize(
    "key", [(), ("ID=1",), ("ID=1", "Name=x"), ("Name desc=x", "ID=1"), ("ID=1", "Name desc=x", "Code=y"), ("1", "x")]
)
def test_a_key_of_other_columns_is_refused(key: tuple[str, ...]) -> None:
    with pytest.raises(PermanentError, match="are now in the order of ID, Name desc,"):
        parameters([ID, NAME], key, "dbo.T")


def test_a_parameter_has_the_column_s_type_and_collation() -> None:
    assert as_parameter(ID) == f"CONVERT(int, {P})"
    assert as_parameter(NAME) == f"CONVERT(nvarchar(20), CONVERT(varbinary(8000), {P}, 1)) COLLATE Latin1_General_CI_AS"
    assert (
        as_parameter(CODE)
        == f"CONVERT(varchar(9), CONVERT(nvarchar(4000), CONVERT(varbinary(8000), {P}, 1)) COLLATE Cyrillic_General_CI_AS)"
    )
    assert as_parameter(PLACE) == f"CONVERT(hierarchyid, CONVERT(varbinary(892), {P}, 1))"
