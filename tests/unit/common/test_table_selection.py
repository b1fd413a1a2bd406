"""What entries of `tables` mean: names, patterns, and what `!` takes away."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.names import TableName
from common.table_selection import Glob, TablePattern, TableSelection, entry, is_pattern


def selection(*entries: str) -> TableSelection:
    return TableSelection.of(map(entry, entries))


def table(text: str) -> TableName:
    return TableName(*text.split(".", 1))


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        (
            "sales.*",
            ["sales.Orders", "SALES.x", "sales.a.b", "sales.a\nb"],
            ["sale.Orders", "dbo.sales", "sales2.Orders"],
        ),
        ("*", ["dbo.Persons", "DBO.x"], ["sales.Orders"]),
        ("*.*", ["dbo.Persons", "sales.Orders"], []),
        ("s?les.Ord*s", ["sales.Orders", "SELES.ords"], ["sles.Orders", "sales.Order"]),
        ("[sales].O*", ["sales.Orders"], ["sales.P"]),
        ("*.[a*b]", ["dbo.a*b", "x.A*B"], ["dbo.aab"]),
        ("[s*].x?", ["s*.xy"], ["sales.xy"]),
        ("Order Det*", ["dbo.Order Details"], ["dbo.Orders"]),
        ("a+b.*(c)", ["a+b.x(c)"], ["aab.x(c)"]),
        ("Персон*", ["dbo.ПЕРСОНЫ"], []),
        ("dbo.a***b", ["dbo.ab", "dbo.axb"], ["dbo.a"]),
    ],
)
def test_a_pattern_finds(pattern: str, found: list[str], not_found: list[str]) -> None:
    chosen = selection(pattern)
    assert [each for each in found if chosen.finding(table(each)) is None] == []
    assert [each for each in not_found if chosen.finding(table(each)) is not None] == []
    assert is_pattern(pattern)
    assert chosen.names == ()


def test_an_exclusion_takes_away_whatever_included_it_wherever_it_stands() -> None:
    for entries in (
        ("sales.*", "Persons", "!sales.Audit*", "!persons"),
        ("!persons", "!sales.Audit*", "Persons", "sales.*"),
    ):
        chosen = selection(*entries)
        assert chosen.names == ()
        assert chosen.finding(table("sales.Orders")) == chosen.patterns[0]
        assert chosen.finding(table("sales.AUDITlog")) is None
        assert str(chosen.excluding(table("sales.AUDITlog"))) == "sales.Audit*"
        assert not chosen.may_have(table("dbo.Persons"))
        assert chosen.wanted.startswith("sales.*, not ")


def test_names_without_patterns_stay_as_they_are() -> None:
    chosen = selection("Persons", "[a.b].[x*y]", "sales.Orders")
    assert chosen.names == (TableName("dbo", "Persons"), TableName("a.b", "x*y"), TableName("sales", "Orders"))
    assert not chosen.patterns
    assert chosen.finding(table("dbo.persons")) is None
    assert chosen.may_have(table("dbo.Persons"))
    assert not chosen.may_have(table("dbo.persons"))


@pytest.mark.parametrize("text", ["!", " ! ", "!!x", "a.b.*", "!a.b.c", "sales.", ".*", "*x[y]", "", "![a]b"])
def test_what_is_no_entry_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"takes away|two parts|must be a table"):
        entry(text)


def test_the_schema_of_a_pattern_is_known_where_there_is_one() -> None:
    assert [TablePattern.parse(each).schema_name for each in ("*", "Sales.*", "[s*].*", "s*.x")] == [
        "dbo",
        "Sales",
        "s*",
        None,
    ]


def test_a_selection_can_travel_to_another_process() -> None:
    chosen = selection("Persons", "sales.*", "!sales.Audit*")
    assert pickle.loads(pickle.dumps(chosen)) == chosen


BOMBS = ["*?" * 14 + "Q", "*a" * 40 + "b", "dbo." + "*a?" * 190, "!" + "*?" * 100 + "Q"]
CHECK = """
import sys
from common.names import TableName
from common.table_selection import entry, TableSelection
chosen = TableSelection.of([entry(sys.argv[1])])
for name in ("CustomerOrderLineItemStatusHistoryArchive", "a" * 128):
    print(chosen.finding(TableName("dbo", name)), chosen.excluding(TableName("dbo", name)))
"""


@pytest.mark.parametrize("bomb", BOMBS)
def test_no_pattern_takes_for_ever(bomb: str) -> None:
    """In a process of its own: a regular expression that does not come to an end lets no other thread run, and no signal."""
    ran = subprocess.run([sys.executable, "-c", CHECK, bomb], capture_output=True, text=True, timeout=20)
    assert (ran.stdout, ran.stderr) == ("None None\n" * 2, "")


def test_an_entry_longer_than_two_names_is_refused() -> None:
    with pytest.raises(ValueError, match="has 605 characters"):
        entry("dbo.*" + "a" * 600)
    entry("[" + "]]" * 128 + "].[" + "]]" * 128 + "]")


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_a_pattern_means_what_the_same_expression_means(pattern: str, name: str) -> None:
    expression = pattern.replace("*", ".*").replace("?", ".")
    assert Glob(pattern).matches(name) is (re.fullmatch(expression, name) is not None)
