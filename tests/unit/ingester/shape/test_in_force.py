"""The shapes in force: what refuses a table, asked at every pass, and names that mask nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from common.errors import PermanentError
from common.names import TableName
from ingester.shape import in_force
from ingester.shape.compiled import Compiled
from ingester.shape.in_force import ShapesInForce
from ingester.shape.mask import Mask, mask_of
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CapturedColumn, CaptureInstance
from tests.fakes.ingester import ORDERS, PERSONS, instance

MASKED = TableShape(masks=(("Name", Mask("redact")),), shared=frozenset({"Name"}))
OLDER = instance()
LABEL = CapturedColumn("Label", "nvarchar", 2)
NEWER = replace(OLDER, name="newer", columns=(OLDER.columns[0], LABEL))


def told(shapes: ShapesInForce, one: CaptureInstance, instances: Sequence[CaptureInstance]) -> str:
    return str(shapes.refusal(PERSONS, one, instances))


def test_a_table_is_judged_once_until_its_shape_or_its_capture_instances_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More tables than any cache of compiled shapes holds: each pass asks for every one."""
    asked: list[TableName] = []

    def noting(shape: TableShape, one: CaptureInstance, *, sends_before: bool) -> Compiled:
        asked.append(one.table)
        return Compiled()

    monkeypatch.setattr(in_force, "compiled", noting)
    tables = [TableName("dbo", f"T{number}") for number in range(3000)]
    shapes = ShapesInForce(dict.fromkeys(tables, MASKED))
    for _ in range(3):
        for table in tables:
            shapes.refusal(table, instance(table), [instance(table)])  # the catalog is read again and again
    assert asked == tables
    shapes.take({tables[5]: AS_CAPTURED})
    shapes.refusal(tables[5], instance(tables[5]))
    shapes.refusal(tables[7], replace(instance(tables[7]), added=("Phone",)))
    assert asked[len(tables) :] == [tables[5], tables[7]]


def test_a_refusal_is_told_at_every_pass_and_over_when_the_shape_is_corrected() -> None:
    shapes = ShapesInForce({PERSONS: TableShape(masks=(("Phone", Mask("redact")),))})
    assert told(shapes, OLDER, [OLDER]) == told(shapes, OLDER, [OLDER])
    assert 'mask names "Phone"' in told(shapes, OLDER, [OLDER])
    shapes.take({PERSONS: MASKED})
    assert shapes.refusal(PERSONS, OLDER, [OLDER]) is None


def test_a_newer_instance_without_what_a_default_hid_is_refused_whether_the_older_one_is_there_or_not() -> None:
    shapes = ShapesInForce({PERSONS: MASKED})
    assert "what hides Name of dbo_Persons finds no column in newer" in told(shapes, NEWER, [OLDER, NEWER])
    assert shapes.refusal(PERSONS, OLDER, [OLDER, NEWER]) is None
    assert "what hides Name" in told(shapes, NEWER, [NEWER])
    again = replace(NEWER, name=OLDER.name)  # Change Data Capture was off, and on again
    assert "what hides Name" in told(shapes, again, [again])
    another = replace(again, source="another table of the name")
    assert shapes.refusal(PERSONS, another, [another]) is None


def test_an_older_instance_may_be_read_again() -> None:
    shapes = ShapesInForce({PERSONS: MASKED})
    swapped = [NEWER, OLDER]  # Label came in clear, Name is hidden
    assert shapes.refusal(PERSONS, OLDER, swapped) is None
    assert shapes.refusal(PERSONS, NEWER, swapped) is None


def test_whatever_keeps_a_shape_from_being_used_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    error = PermanentError("the Python package cel_expr_python is not installed")

    def failing(*given: object, **more: object) -> Compiled:
        raise error

    monkeypatch.setattr(in_force, "compiled", failing)
    assert ShapesInForce({}).refusal(PERSONS, OLDER, [OLDER]) is error


def test_a_slice_may_lack_what_came_later() -> None:
    shapes = ShapesInForce({PERSONS: TableShape(masks=(("Phone", Mask("redact")),))})
    assert shapes.of(PERSONS, replace(OLDER, added=("Phone",))).shared == {"Phone"}
    assert shapes.of(PERSONS, OLDER) == shapes.of(PERSONS)


def test_a_name_in_the_defaults_that_no_table_captures_is_told_once_until_one_does() -> None:
    slip = replace(MASKED, masks=(("Nmae", mask_of("null")),), shared=frozenset({"Nmae"}))
    shapes = ShapesInForce({PERSONS: slip, ORDERS: slip})
    both = {PERSONS: (OLDER,), ORDERS: (instance(ORDERS),)}
    assert shapes.slips({PERSONS: (), ORDERS: ()}) == ()
    assert shapes.slips(both) == ('Nmae (did you mean "Name"?)',)
    assert shapes.slips(both) == ()
    odd = replace(OLDER, columns=(*OLDER.columns, CapturedColumn("NMAE", "int", 3)))
    assert shapes.slips({**both, PERSONS: (odd,)}) == ()
    assert shapes.slips(both) != ()
    shapes.take({PERSONS: MASKED})
    assert shapes.slips({PERSONS: (OLDER,)}) == (), "the shape of a table that left does not count"
