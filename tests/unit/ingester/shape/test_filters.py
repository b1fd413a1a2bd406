"""Filters: which changes they let through, mistakes found at the start with their place, and failures that show no value of the row."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.cel import filters
from common.cel.expression import LONGEST, MOST_PLUSES
from common.cel.filters import Filter, FilterError, FilterFailed
from common.errors import PermanentError
from ingester.shape.filters import compile_filter

SECRET = "Jaroslava 4111-1111"
ROW: dict[str, object] = {
    "Id": 12345,
    "Status": "paid",
    "Total": "12.50",
    "Ratio": 1.5,
    "Flag": True,
    "Note": None,
    "Name": SECRET,
    "Order Id": 7,
    "Číslo": 3,
    "Created": "2024-05-06T12:13:14.123",
    "Exact": orjson.Fragment(b"12345678901234567890.125"),
    "Half": orjson.Fragment('"a\\ud83d"'),
}
METADATA: dict[str, object] = {"OperationType": "Update", "ChangedColumns": ("Status", "Total"), "LSN": "0x00000001"}


def kept(text: str, data: Mapping[str, object] = ROW, before: Mapping[str, object] | None = None) -> bool:
    return compile_filter(text)(data, before, METADATA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('data.Status == "paid"', True),
        ("data.Status != 'paid'", False),
        ('metadata.OperationType == "Delete" || double(data.Total) > 100.0', False),
        ('data.Status in ["paid", "sent"] && data.Id % 2 == 1', True),
        ("data.Ratio > 1", True),
        ("data.Flag", True),
        ("!data.Flag", False),
        ("data.Note == null", True),
        ("data.Note != null && data.Note > 3", False),
        ('data["Order Id"] == 7', True),
        ("data.`Order Id` == 7", True),
        ('data["Číslo"] == 3', True),
        ("has(data.Postcode)", False),
        ("has(data.Note)", True),
        ('data.Name.startsWith("Jaro")', True),
        (r'data.Name.matches("^[A-Z][a-z]+ [0-9-]+$")', True),
        ('timestamp(data.Created + "Z") > timestamp("2024-01-01T00:00:00Z")', True),
        ('timestamp(data.Created + "Z").getFullYear() == 2024', True),
        ('"Status" in metadata.ChangedColumns', True),
        ('["A", "J"].exists(first, data.Name.startsWith(first))', True),
        ("size(data) == 12", True),
        ("data.all(name, name.size() > 1)", True),
        ("before == null", True),
        ('before == null || before.Status != "paid"', True),
        ("true // whatever it is", True),
    ],
)
def test_what_a_filter_answers(text: str, expected: bool) -> None:
    assert kept(text) is expected


def test_before_is_the_row_before_the_change() -> None:
    text = "before != null && before.Status != data.Status"
    assert kept(text) is False
    assert kept(text, before={"Status": "new"}) is True
    assert kept(text, before={"Status": "paid"}) is False


def test_values_that_stand_as_json_are_what_they_stand_for() -> None:
    """A number is a double, however many digits it has; half a surrogate pair, which no text of CEL can have, is U+FFFD."""
    assert kept("data.Exact > 12345678901234500000.0")
    assert kept("type(data.Exact) == double")
    assert kept('data.Half == "a\ufffd"')
    assert kept("type(data.Whole) == double", {"Whole": orjson.Fragment(b"5")})


def test_any_mapping_can_be_a_row() -> None:
    assert kept('data.Status == "paid"', MappingProxyType(ROW))
    assert kept("size(data) == 12", MappingProxyType(ROW))


def test_a_column_is_found_in_another_case_if_none_has_exactly_this_name() -> None:
    assert kept('data.status == "paid"')
    assert kept("data.id == 1", {"ID": 2, "id": 1})
    assert kept("!has(data.state)")


@pytest.mark.parametrize(
    ("text", "columns", "before"),
    [
        ('data.Status == "paid"', {"Status"}, False),
        ('data["Order Id"] == 1 && data.`a b` == 2 && has(data.C)', {"Order Id", "a b", "C"}, False),
        ("before.A != data.B", {"A", "B"}, True),
        ("before != null && before.A == 1", {"A"}, True),
        ('"data.A" == r"before" || data.B == 1', {"B"}, False),
        ("data . A == 1 // data.B", {"A"}, False),
        (".data.A == 1", {"A"}, False),
        ("metadata.Snapshot.data == 1", set(), False),
        ("data[data.A] == 1", None, False),
        (r'data["\u0041"] == 1', None, False),
        ("size(data) > 3", None, False),
        ("data.all(k, k != '')", None, False),
        ("data == before", None, True),
    ],
)
def test_the_columns_that_a_filter_names(text: str, columns: set[str] | None, before: bool) -> None:
    found = compile_filter(text)
    assert (found.columns, found.uses_before) == (columns, before)


@pytest.mark.parametrize(
    ("text", "offset", "told"),
    [
        ("data.Qty > 1 &&", 15, "not a CEL expression: it ends too early"),
        ("data.Status ==", 14, "it ends too early"),
        ('data.Status = "paid"', 12, "write =="),
        ("size(data.Status", 16, "missing ')' at the end"),
        ("true ? 1", 8, "it ends too early"),
        ("data.A == 1 )", 12, "')' is not expected here"),
        ("data. == 1", 6, "is not expected here"),
        ("data.A and data.B", 7, "and is not an operator, write &&"),
        ("data.A OR data.B", 7, "OR is not an operator, write ||"),
        ("data.A == 1 & true", 12, "& is not an operator, write &&"),
        ("data.A == 'paid", 10, "a text begins here that does not end"),
        ('Status == "paid"', 0, "a column is data.Status"),
        ('data.A == 1 &&\n  lower(data.B) == "x"', 17, "unknown function lower"),
        ("data.A == lower && lower(data.B)", 10, "unknown variable lower"),
        ("data.A.lower() == 'x'", 7, "unknown function lower"),
        ('data.A == 1 || "a" + 1 == 2', 19, "(string, int)"),
        ('data.A in "abc"', 7, "(dyn, string)"),
        ('metadata.Operaton == "x"', 0, 'did you mean "OperationID"?'),
        ("1", None, "gives an int"),
        ('"text"', None, "gives text"),
        ("data", None, "gives"),
        ('data.Name.matches("a(")', 18, "missing )"),
        ("data.A = ", 7, "write =="),
        ("", 0, "it ends too early"),
        ("[1].all(a, [1].all(b, [1].all(c, true)))", 26, "more than 2 of all"),
        ("data.all(k, " + "+".join(["k"] * 25) + ' != "")', 12 + 2 * MOST_PLUSES + 1, "times +"),
        ("(" * 60 + "true" + ")" * 60, None, "nested too deeply"),
        ("true && " * 400 + "true", None, f"at most {LONGEST}"),
    ],
)
def test_a_mistake_is_found_when_the_filter_is_compiled(text: str, offset: int | None, told: str) -> None:
    with pytest.raises(FilterError) as raised:
        compile_filter(text)
    assert told in str(raised.value)
    assert raised.value.offset == offset
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("data.Total > 100", "data.Total is text"),
        ("data.Note > 3", "data.Note is null"),
        ("data.Postcode == 1", "data has no Postcode"),
        ("before.Name == data.Name", "before is null"),
        ("data.Id", "gives an int, not true or false"),
        ("data.Name", "gives text, not true or false"),
        ("data.Note", "gives null, not true or false"),
        ("1 / (data.Id - 12345) == 1", "division by zero"),
        ("1 % (data.Id - 12345) == 1", "division by zero"),
        ("data.Id + 9223372036854775807 > 0", "out of range"),
        ("int(data.Name) == 1", "cannot be converted to int"),
        ("timestamp(data.Name) > timestamp(0)", "cannot be converted to timestamp"),
        ("data[data.Name] == 1", "a key is not there"),
        ('data.Name.matches(data.Name + "(")', "not a regular expression"),
        ("data.Name.Nope == 1", "has none"),
        ("data.Name[0] == 'J'", "error INVALID_ARGUMENT"),
        ("data.Big > 1", "out of range"),
        ("data.Id.size() > 1", "(int64).size()"),
        ("[data.Name][data.Id] == 'J'", "no element"),
    ],
)
def test_a_failure_names_cause_and_column_and_never_a_value(text: str, told: str) -> None:
    row = {**ROW, "Big": 10**30} if "Big" in text else ROW
    with pytest.raises(FilterFailed) as raised:
        compile_filter(text)(row, None, METADATA)
    said = str(raised.value)
    assert told in said
    for value in (*row.values(), *METADATA.values()):
        if isinstance(value, str | int) and not isinstance(value, bool) and len(str(value)) > 2:
            assert str(value) not in said
    assert (
        raised.value.__context__ is None or raised.value.__suppress_context__
    )  # the library's error may quote the row


def test_a_failure_names_a_few_columns_of_a_filter_that_names_many() -> None:
    names = [f"C{n:02}" for n in range(20)]
    with pytest.raises(FilterFailed) as raised:
        compile_filter(" + ".join(f"data.{name}" for name in names) + " > 0")(dict.fromkeys(names, "x"), None, METADATA)
    assert str(raised.value).count(" is text") == 5


@pytest.mark.parametrize(
    "text",
    [
        'data.Long.matches("^(a+)+$")',
        'data.Long.matches("(a|a)*b")',
        "data.Long.contains(data.Long + data.Long)",
        "data.Many.all(x, data.Many.all(y, x + y >= 0))",
        f"[data.Long].map(a, {' + '.join(['a'] * 10)}).map(b, size({' + '.join(['b'] * 10)})) == []",
    ],
)
def test_no_filter_runs_for_long_on_a_large_row(text: str) -> None:
    row = {"Long": "a" * 300_000 + "!", "Many": list(range(3000))}
    begun = time.process_time()
    with suppress(FilterFailed):
        compile_filter(text)(row, None, METADATA)
    assert time.process_time() - begun < 10


def test_the_expressions_of_the_page_can_be_used() -> None:
    page = (Path(__file__).parents[4] / "docs" / "shape.md").read_text(encoding="utf-8")
    table = page.partition("| to ask |")[2].partition("\n\n")[0].replace("\\|", "|")
    found = re.findall(r"`([^`]*(?:==|>|\(data|With\(|matches\(|\bin )[^`]*)`", table)
    assert len(found) >= 10
    for text in found:
        assert compile_filter(text).columns is not None
    example = re.search(r'filter     = "(.*)"', page)
    assert example is not None
    assert compile_filter(example[1]).columns == frozenset({"Status"})


_NAMES = st.sampled_from(["A", "B", "C", "data", "before"])
_COLUMNS = st.builds(
    lambda variable, name, form: variable + form.format(name),
    st.sampled_from(["data", "before", " . data", "data . D"]),
    _NAMES,
    st.sampled_from([".{}", '["{}"]', "['{}']", "[r'{}']", ".`{}`", " . {} ", '[ """{}""" ]', "[{!r} + '']"]),
)
_TERMS = st.recursive(
    st.one_of(
        _COLUMNS,
        st.builds("has(data.{})".format, st.sampled_from("ABCX")),
        st.sampled_from(["1", "'data.A'", "size(data)", "before == null", "data != {}", "'B' in data", "true"]),
    ),
    lambda inner: st.one_of(
        st.builds("({} == {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("({} ? {} : 'B')".format, inner, inner),
        st.builds("data[string({})]".format, inner),
        st.builds("[{}].exists(data, data == 'B')".format, inner),
    ),
    max_leaves=5,
)


@given(text=_TERMS)
@settings(max_examples=150, deadline=None)
def test_a_filter_that_is_handed_only_the_columns_it_names_answers_as_with_all(text: str) -> None:
    row: dict[str, object] = {"A": "B", "B": True, "C": 1, "D": {"A": 1, "B": 2}, "data": "C", "before": "A"}
    try:
        one = compile_filter(text)
    except FilterError:
        return
    whole = replace(one, fields=dict.fromkeys(one.fields, None))
    assert _answer(one, row) == _answer(whole, row)


def _answer(wanted: Filter, row: Mapping[str, object]) -> object:
    try:
        return wanted(row, row, {})
    except FilterFailed:
        return "failed"


def test_one_filter_serves_several_threads() -> None:
    compiled = compile_filter('data.Status == "paid" && data.Id > 10')
    wrong: list[object] = []

    def ask() -> None:
        wrong.extend(n for n in range(3000) if compiled({"Status": "paid", "Id": n}, None, METADATA) is not (n > 10))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_without_the_library_a_filter_is_refused_and_a_setting_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A router reads the ingester's settings too, and its image has no CEL."""
    filters._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    with pytest.raises(PermanentError, match="cel_expr_python, which is not installed") as raised:
        compile_filter("data.OnlyHere == 1")
    assert "dstream-cdc[ingester]" in str(raised.value.hint)
    assert filters._checked("data.OnlyHere ==") == "data.OnlyHere =="
    monkeypatch.undo()
    filters._environment.cache_clear()
