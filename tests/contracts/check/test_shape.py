"""`dstream check` of shapes: each table's own against its captured columns, before a start."""

from __future__ import annotations

from tests.contracts.check.conftest import Place

SUBJECT = "shape of dbo.Persons"
SALT = "CzQMA0cB5K"


def override(text: str) -> str:
    return f'tables_overrides {{\n overrides {{\n table_name = "Persons"\n {text}\n }}\n }}'


def test_what_is_sent_of_a_table_is_said(place: Place) -> None:
    assert place.check().each("ok", SUBJECT) == []
    columns = [row for row in _columns(place) if row != "ID"]
    shape = 'shape {\n skip_operations = ["Delete"]\n skip_unchanged = true\n }\n'
    place.settings["more"] = shape + override(
        f'mask {{ {columns[0]} = "hash:SHA-256:{SALT}" }}\n filter = "data.ID > 0"'
    )
    report = place.check()
    count = len(columns) + 1
    assert report.said("ok", SUBJECT) == (
        f"sends {count} of {count} columns, in clear {', '.join(['ID', *columns[1:]])}; masks {columns[0]} (hash); "
        "leaves out deletes; leaves out updates that changed no sent column; "
        "has a filter"
    )
    assert report.status == 0
    assert SALT not in "\n".join(report.lines)


def test_a_table_without_a_shape_beside_others_is_said_to_be_sent_in_clear(place: Place) -> None:
    """A mask in another table's override is none of this table."""
    place.settings |= {"tables": '"Persons", "sales.Orders"'}
    place.settings["more"] = override('mask { Email = "redact" }').replace("Persons", "sales.Orders")
    columns = _columns(place)
    said = f"sends {len(columns)} of {len(columns)} columns, in clear {', '.join(columns)}"
    assert place.check().said("ok", SUBJECT) == said


def test_a_shape_that_does_not_fit_fails_with_its_column_and_the_remedy(place: Place) -> None:
    place.settings["more"] = override('exclude_columns = ["Nmae"]')
    report = place.check()
    assert report.status == 1
    said = report.said("fail", SUBJECT)
    assert 'exclude_columns names "Nmae", which is not a captured column of the table' in said
    assert "correct the shape of the table in the configuration" in said
    place.settings["more"] = override('exclude_columns = ["ID"]')
    assert "which is part of the key" in place.check().said("fail", SUBJECT)


def test_a_name_in_the_defaults_that_no_table_captures_is_a_warning(place: Place) -> None:
    place.settings["more"] = 'shape {\n exclude_columns = ["FirstNmae", "Nobody has it"]\n }'
    report = place.check()
    assert report.status == 0
    assert report.said("warn", "shape").startswith(
        'names columns that no table captures: FirstNmae (did you mean "FirstName"?), Nobody has it: correct the names'
    )
    place.settings["more"] = 'shape {\n exclude_columns = ["firstname"]\n }'
    assert place.check().each("warn", "shape") == []


def test_a_filter_that_names_what_is_not_captured_is_a_warning(place: Place) -> None:
    place.settings["more"] = override('filter = "data.Sttus == 1"')
    assert "the filter names Sttus, which dbo_Persons does not capture" in place.check().said("warn", SUBJECT)


def _columns(place: Place) -> list[str]:
    with place.login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sys.columns WHERE object_id = OBJECT_ID(N'dbo.Persons') ORDER BY column_id")
        return [str(row[0]) for row in cursor.fetchall()]
