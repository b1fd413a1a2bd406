"""A shape made ready for a capture instance: names matched, what it refuses, what is read, and what becomes of changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
import pytest

from ingester.change import Change, Operation
from ingester.shape.columns import ShapeRefused, fitted, refuse_uncovered, sent_columns, uncaptured, with_nearest
from ingester.shape.compiled import compiled
from ingester.shape.mask import Mask, mask_of
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CapturedColumn, CaptureInstance
from ingester.transform import transformed
from tests.fakes.ingester import PERSONS, instance, position

COLUMNS = (
    CapturedColumn("ID", "int", 1, key_ordinal=1, length=4),
    CapturedColumn("Email", "nvarchar", 2, length=100),
    CapturedColumn("Age", "int", 3, length=4),
    CapturedColumn("Notes", "nvarchar", 4, length=-1, large=True),
)
METADATA = {"OperationType": "Insert"}
PERSON: Mapping[str, object] = {"ID": 7, "Email": "a@b.example", "Age": 40, "Notes": "long"}


def captured(*more: CapturedColumn) -> CaptureInstance:
    return replace(instance(), columns=(*COLUMNS, *more))


def masks(**texts: str) -> tuple[tuple[str, Mask], ...]:
    return tuple((name, mask_of(text)) for name, text in texts.items())


def change(operation: Operation = Operation.INSERT, data: Mapping[str, object] = PERSON, **others: object) -> Change:
    made = Change(PERSONS, "dbo_Persons", position(2, operation=int(operation)), operation, data, key=(7,))
    return replace(made, **others)  # type: ignore[arg-type]


def sent(shape: TableShape, one: Change, *, sends_before: bool = False) -> Change | None:
    found = transformed(
        [one], compiled(shape, captured(), sends_before=sends_before, metadata=lambda change: METADATA).transforms
    )
    assert found.failure is None
    return found.changes[0] if found.changes else None


def test_without_a_shape_nothing_is_done() -> None:
    found = compiled(AS_CAPTURED, captured(), sends_before=False)
    assert (found.columns, found.reads_before, found.transforms) == (None, False, ())
    assert [one.column for one in sent_columns(AS_CAPTURED, COLUMNS)] == list(COLUMNS)


def test_columns_are_left_out_and_masked_in_both_images_and_in_what_is_said_of_them() -> None:
    shape = TableShape(excluded=("Age",), masks=masks(Email="redact"))
    one = change(
        Operation.UPDATE,
        before={"ID": 7, "Email": None, "Age": 39},
        changed_columns=("Email", "Age"),
        unavailable=("Notes", "Age"),
    )
    found = sent(shape, one, sends_before=True)
    assert found is not None
    assert found.data == {"ID": 7, "Email": "***", "Notes": "long"}
    assert found.before == {"ID": 7, "Email": None}
    assert (found.changed_columns, found.unavailable) == (("Email",), ("Notes",))
    assert (found.position, found.key, found.operation) == (one.position, one.key, one.operation)
    assert one.data == PERSON


@pytest.mark.parametrize(
    ("shape", "columns"),
    [
        (TableShape(columns=("id", "EMAIL")), ("ID", "Email")),
        (TableShape(columns=("Notes", "ID")), ("ID", "Notes")),
        (TableShape(excluded=("notes",)), ("ID", "Email", "Age")),
        (TableShape(excluded=("Phone",), shared=frozenset({"Phone"})), None),
        (TableShape(masks=masks(Age="null")), None),
    ],
)
def test_only_columns_that_are_sent_are_read(shape: TableShape, columns: tuple[str, ...] | None) -> None:
    assert compiled(shape, captured(), sends_before=False).columns == columns


def test_a_name_stands_for_the_column_that_it_names_exactly_else_for_all_that_differ_in_case_alone() -> None:
    twins = captured(CapturedColumn("EMAIL", "nvarchar", 5, length=100))

    def of(name: str) -> list[str]:
        found = sent_columns(TableShape(masks=((name, Mask("redact")),)), twins.columns)
        return [one.column.name for one in found if one.masked]

    assert of("Email") == ["Email"]
    assert of("EMAIL") == ["EMAIL"]
    assert of("email") == ["Email", "EMAIL"]
    assert [one.column.name for one in sent_columns(TableShape(excluded=("email",)), twins.columns)] == [
        *("ID", "Age", "Notes")
    ]


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (TableShape(excluded=("Emial",)), 'exclude_columns names "Emial", which is not a captured column of the table (did you mean "Email"?)'),
        (TableShape(columns=("ID", "Name")), 'columns names "Name", which is not a captured column'),
        (TableShape(masks=masks(Phone="redact")), 'mask names "Phone"'),
        (TableShape(columns=("Email",)), 'columns does not list "ID", which is part of the key'),
        (TableShape(excluded=("id",)), 'exclude_columns names "ID", which is part of the key'),
        (TableShape(masks=masks(ID="null")), 'the mask of "ID" is null, and the column is part of the key'),
        (TableShape(masks=masks(Age="redact")), 'the mask of "Age" is redact, and its type int is not text'),
        (TableShape(masks=masks(Age="truncate:2")), 'the mask of "Age" is truncate, and its type int is not text'),
    ],
)  # fmt: skip
def test_a_shape_that_does_not_fit_is_refused(shape: TableShape, told: str) -> None:
    with pytest.raises(ShapeRefused) as refused:
        compiled(shape, captured(), sends_before=False)
    assert refused.value.message.startswith(f"the shape of dbo.Persons: {told}")
    assert "without a restart" in str(refused.value.hint)
    assert "a provider needs a start" in str(refused.value.hint)


@pytest.mark.parametrize(
    "shape",
    [
        TableShape(masks=masks(phone="redact", Email="redact")),
        TableShape(excluded=("Phone",)),
        TableShape(columns=("ID", "Phone")),
    ],
)
def test_a_column_that_came_after_what_is_read_may_be_named_before_a_newer_instance_has_it(shape: TableShape) -> None:
    with pytest.raises(ShapeRefused, match="hone"):
        compiled(shape, captured(), sends_before=False)
    older = replace(captured(), added=("Phone",))
    compiled(shape, older, sends_before=False)
    fits = fitted(shape, older)
    assert sent_columns(fits, older.columns)
    assert fitted(fits, older) == fits
    with pytest.raises(ShapeRefused, match='"Fax"'):
        compiled(replace(shape, masks=masks(Fax="redact")), older, sends_before=False)


FAX = CapturedColumn("Fax", "nvarchar", 5, length=40)
DEFAULTS = frozenset({"Email", "Age", "Phone"})


def renamed(*more: CapturedColumn) -> CaptureInstance:
    """A newer instance without Email, and with `more`."""
    return replace(captured(), name="newer", columns=(COLUMNS[0], *COLUMNS[2:], *more))


@pytest.mark.parametrize("shape", [TableShape(masks=masks(email="redact")), TableShape(excluded=("email", "Phone"))])
def test_what_hid_a_column_and_hides_none_of_a_newer_instance_stops_the_table_if_another_came_in_clear(
    shape: TableShape,
) -> None:
    shape = replace(shape, shared=DEFAULTS | {"email"})
    with pytest.raises(ShapeRefused) as refused:
        refuse_uncovered(shape, [captured()], renamed(FAX))
    assert refused.value.message.startswith(
        "the shape of dbo.Persons: what hides email of dbo_Persons finds no column in newer, which captures Fax besides"
    )
    for fine in (
        (shape, renamed()),  # nothing came in its place
        (replace(shape, masks=(*shape.masks, *masks(FAX="null"))), renamed(FAX)),
        (replace(shape, excluded=(*shape.excluded, "fax")), renamed(FAX)),
        (replace(shape, excluded=(), masks=(), columns=("ID", "Fax")), renamed(FAX)),
        (TableShape(masks=masks(Age="null"), shared=DEFAULTS), renamed(FAX)),
        (shape, captured(FAX)),
    ):
        refuse_uncovered(fine[0], [captured()], fine[1])


def test_names_of_the_defaults_that_no_table_captures_are_found_with_what_may_be_meant() -> None:
    usual = TableShape(
        masks=masks(Emial="redact", fax="redact", Phone="null"), shared=frozenset({"Emial", "fax", "Phone"})
    )
    instances = [captured(), replace(captured(FAX), added=("Phone",))]
    found = uncaptured([AS_CAPTURED, usual], instances)
    assert found == ("Emial",)
    assert with_nearest(found, instances) == ('Emial (did you mean "Email"?)',)
    assert uncaptured([replace(usual, shared=frozenset())], instances) == ()


def test_a_column_listed_by_a_name_that_two_have_is_refused_since_one_may_not_be_meant() -> None:
    twins = captured(CapturedColumn("EMAIL", "nvarchar", 5, length=100))
    with pytest.raises(ShapeRefused, match='columns names "email", which may be "Email" or "EMAIL"'):
        compiled(TableShape(columns=("ID", "email")), twins, sends_before=False)


def test_a_key_may_be_hashed_and_keeps_its_session() -> None:
    found = sent(TableShape(masks=masks(id="hash:SHA-256:salt")), change())
    assert found is not None
    assert len(str(found.data["ID"])) == 64
    assert found.key == (7,)


def test_skipped_operations_are_left_out() -> None:
    shape = TableShape(skip_operations=(Operation.DELETE, Operation.UPDATE))
    kept = [one for one in Operation if one in (0, 1, 2, 4) and sent(shape, change(one)) is not None]
    assert kept == [Operation.READ, Operation.INSERT]
    assert not compiled(shape, captured(), sends_before=False).reads_before


def test_a_filter_sees_the_row_as_captured_and_only_what_it_names_is_read_for_it() -> None:
    shape = TableShape(columns=("ID",), masks=masks(ID="hash:SHA-256:salt"), filter="data.age > 18 && data.ID == 7")
    found = sent(shape, change())
    assert found is not None
    assert found.data.keys() == {"ID"}
    assert sent(shape, change(data={**PERSON, "Age": 18})) is None
    assert compiled(shape, captured(), sends_before=False).columns == ("ID", "Age")
    whole = replace(shape, filter="data.all(name, name != 'x')")
    assert compiled(whole, captured(), sends_before=False).columns is None


@pytest.mark.parametrize("text", ["'Old' in metadata.Unavailable", "metadata.exists(name, name == 'Unavailable')"])
def test_a_dropped_column_is_read_for_a_filter_that_may_ask_whether_it_is_there(text: str) -> None:
    old = captured(CapturedColumn("Old", "int", 5, gone=True, length=4))
    shape = TableShape(excluded=("Old", "Age"), filter=text)
    assert compiled(shape, old, sends_before=False).columns == ("ID", "Email", "Notes", "Old")
    others = replace(shape, filter="'Old' in metadata.ChangedColumns")
    assert compiled(others, old, sends_before=False).columns == ("ID", "Email", "Notes")


def test_a_filter_of_metadata_is_given_it() -> None:
    assert sent(TableShape(filter='metadata.OperationType == "Insert"'), change()) is not None
    assert sent(TableShape(filter='metadata.OperationType == "Delete"'), change()) is None


def test_a_change_on_which_the_filter_fails_is_set_aside_shaped_or_stops_the_table() -> None:
    shape = TableShape(columns=("ID", "Email"), masks=masks(Email="redact"), filter="data.Email > 3 || data.Age > 18")
    young = change(data={**PERSON, "Age": None})
    aside = sent(replace(shape, on_filter_error="dead_letter"), young)
    assert aside is not None
    assert aside.data == {"ID": 7, "Email": "***"}
    assert aside.set_aside is not None
    assert "data.Age is null" in aside.set_aside
    assert "a@b.example" not in aside.set_aside
    found = transformed([young], compiled(shape, captured(), sends_before=False, metadata=lambda change: {}).transforms)
    assert found.failure is not None
    assert "data.Age is null" in found.failure.message
    assert found.changes == []


UNCHANGED = TableShape(excluded=("Age",), skip_unchanged=True)


@pytest.mark.parametrize(
    ("before", "mask", "is_sent"),
    [
        ({**PERSON, "Age": 39}, ("Age",), False),
        ({**PERSON, "Age": 39}, ("Age", "Email"), False),
        ({**PERSON, "Email": "other"}, ("Email",), True),
        ({**PERSON, "Email": "A@B.example"}, ("Email",), True),
        ({**PERSON, "Email": None}, ("Email",), True),
        ({"ID": 7, "Email": "a@b.example"}, ("Age",), False),
        ({"ID": 7, "Email": "a@b.example"}, ("Notes",), True),
    ],
)
def test_an_update_that_changed_no_sent_column_is_left_out(
    before: Mapping[str, object], mask: tuple[str, ...], is_sent: bool
) -> None:
    one = change(Operation.UPDATE, before=before, changed_columns=mask)
    assert (sent(UNCHANGED, one) is not None) is is_sent


def test_images_that_are_read_to_compare_are_not_sent() -> None:
    assert compiled(UNCHANGED, captured(), sends_before=False).reads_before
    update = change(
        Operation.UPDATE, before={**PERSON, "Email": "x"}, changed_columns=("Email",), unavailable=("Notes",)
    )
    found = sent(UNCHANGED, update)
    assert found is not None
    assert (found.before, found.unavailable) == (None, ())  # Notes was not available before the change alone
    found = sent(UNCHANGED, update, sends_before=True)
    assert found is not None
    assert (found.before is not None, found.unavailable) == (True, ("Notes",))
    deleted = sent(UNCHANGED, change(Operation.DELETE, before=PERSON))
    assert deleted is not None
    assert deleted.before is None


def test_numbers_with_all_their_digits_are_compared_by_these() -> None:
    shape = TableShape(skip_unchanged=True)
    for digits, is_sent in ((b"1.10", False), (b"1.11", True)):
        data = {**PERSON, "Age": orjson.Fragment(b"1.10")}
        one = change(Operation.UPDATE, data, before={**PERSON, "Age": orjson.Fragment(digits)})
        assert (sent(shape, one) is not None) is is_sent


TRACE = CapturedColumn("Traceparent", "char", 5, length=55)
GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def traced(shape: TableShape, one: Change) -> Change:
    ready = compiled(shape, captured(TRACE), sends_before=False, metadata=lambda change: METADATA)
    assert ready.columns is None or TRACE.name in ready.columns, "it is read even where it is not sent"
    (found,) = transformed([one], ready.transforms).changes
    return found


@pytest.mark.parametrize("excluded", [(), ("Traceparent", "Notes")])
def test_the_context_that_an_application_wrote_travels_with_its_change(excluded: tuple[str, ...]) -> None:
    shape = TableShape(trace_column="traceparent", excluded=excluded)
    row = {**PERSON, "Traceparent": f"{GIVEN} "}
    found = traced(shape, change(data=row))
    assert found.traceparent == GIVEN
    assert ("Traceparent" in found.data) == (not excluded)
    written = change(Operation.UPDATE, data=row, changed_columns=("Age", "Traceparent"))
    assert traced(shape, written).traceparent == GIVEN


def test_a_context_of_an_earlier_write_is_not_that_of_a_later_one() -> None:
    shape, row = TableShape(trace_column="Traceparent"), {**PERSON, "Traceparent": GIVEN}
    assert traced(shape, change(Operation.UPDATE, data=row, changed_columns=("Age",))).traceparent is None
    assert traced(shape, change(Operation.DELETE, data=row)).traceparent is None
    assert traced(shape, change(Operation.READ, data=row)).traceparent is None


@pytest.mark.parametrize("value", [None, "", "no context", 7])
def test_what_is_no_context_is_none(value: object) -> None:
    assert (
        traced(TableShape(trace_column="Traceparent"), change(data={**PERSON, "Traceparent": value})).traceparent
        is None
    )


def test_a_table_may_lack_the_column_and_nothing_is_done() -> None:
    assert compiled(TableShape(trace_column="Other"), captured(), sends_before=False).transforms == ()


@pytest.mark.parametrize("more", [{}, {"excluded": ("Traceparent",)}, {"shared": frozenset({"Traceparent"})}])
@pytest.mark.parametrize("name", ["Traceparent", "TRACEPARENT"])
def test_a_masked_column_is_no_trace_column_sent_or_not(more: dict[str, Any], name: str) -> None:
    shape = TableShape(trace_column="Traceparent", masks=masks(**{name: "redact"}), **more)
    with pytest.raises(ShapeRefused, match="leave it out with exclude_columns"):
        compiled(shape, captured(TRACE), sends_before=False)
