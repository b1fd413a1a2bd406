"""Laws of filters, on expressions made at random: an independent model of their meaning, and the laws of three values.

The model walks the tree with its own tables, over the values long, string, boolean and unknown, and says "failure" by an
exception of its own; texts are made from the same tree, so that the parser is held to it as well.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from emulators.servicebus.properties import MessageProperties
from emulators.servicebus.rules.errors import FilterError
from emulators.servicebus.rules.evaluate import condition
from emulators.servicebus.rules.lexer import MAX_LENGTH
from emulators.servicebus.rules.parser import MAX_DEPTH, parse_filter
from tests.emulators.servicebus.unit.messages import make_message

PROPERTIES: dict[str, Any] = {"one": 1, "three": 3, "word": "ab", "yes": True, "nothing": None}
FAILURE = "failure"


class Fails(Exception):
    """The model's failure."""


@dataclass(frozen=True)
class Tree:
    """An operator or leaf with its operands."""

    name: str
    operands: tuple[Any, ...] = ()


LEAVES = st.one_of(
    st.sampled_from(["one", "three", "word", "yes", "nothing", "missing"]).map(lambda name: Tree("property", (name,))),
    st.integers(0, 9).map(lambda number: Tree("constant", (number,))),
    st.sampled_from(["ab", "", "it's", "a%"]).map(lambda text: Tree("constant", (text,))),
    st.sampled_from([True, False, None]).map(lambda value: Tree("constant", (value,))),
)


def _binary(operands: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return st.builds(lambda sign, a, b: Tree(sign, (a, b)), st.sampled_from("+-*/%"), operands, operands)


EXPRESSIONS = st.recursive(
    LEAVES, lambda inner: _binary(inner) | inner.map(lambda operand: Tree("negative", (operand,))), max_leaves=4
)
COMPARISONS = st.builds(
    lambda sign, a, b: Tree(sign, (a, b)), st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), EXPRESSIONS, EXPRESSIONS
)
PREDICATES = st.recursive(
    st.one_of(
        COMPARISONS,
        st.lists(EXPRESSIONS, min_size=2, max_size=4).map(lambda items: Tree("in", tuple(items))),
        st.sampled_from(["one", "nothing", "missing"]).map(lambda name: Tree("is null", (name,))),
        st.sampled_from(["one", "nothing", "missing"]).map(lambda name: Tree("exists", (name,))),
    ),
    lambda inner: st.one_of(
        st.builds(lambda name, a, b: Tree(name, (a, b)), st.sampled_from(["and", "or"]), inner, inner),
        inner.map(lambda operand: Tree("not", (operand,))),
    ),
    max_leaves=6,
)


def written(tree: Tree) -> str:
    """The text of a tree, every operand in parentheses."""
    if tree.name == "property":
        return str(tree.operands[0])
    if tree.name == "constant":
        value = tree.operands[0]
        return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).replace("None", "NULL")
    if tree.name in ("is null", "exists"):
        return f"{tree.operands[0]} IS NULL" if tree.name == "is null" else f"EXISTS({tree.operands[0]})"
    parts = [f"({written(operand)})" for operand in tree.operands]
    if tree.name == "in":
        return f"{parts[0]} IN ({', '.join(parts[1:])})"
    if tree.name in ("not", "negative"):
        return ("NOT " if tree.name == "not" else "-") + parts[0]
    return f"{parts[0]} {tree.name.upper()} {parts[1]}"


def model(tree: Tree) -> Any:
    """What the tree means."""
    if tree.name == "property":
        return PROPERTIES.get(tree.operands[0])
    if tree.name == "constant":
        return tree.operands[0]
    if tree.name == "is null":
        return PROPERTIES.get(tree.operands[0]) is None
    if tree.name == "exists":
        return tree.operands[0] in PROPERTIES
    if tree.name in ("and", "or"):
        first = model(tree.operands[0])
        stop = tree.name == "or"
        if first is stop:
            return stop
        second = model(tree.operands[1])
        return second if second is stop or first is not None else None
    if tree.name == "in":
        unknown = False
        for item in tree.operands[1:]:
            equal = model(Tree("=", (tree.operands[0], item)))
            if equal:
                return True
            unknown |= equal is None
        return None if unknown else False
    values = [model(operand) for operand in tree.operands]
    if None in values:
        return None
    if tree.name == "not":
        return not values[0]
    return operated(tree.name, values)


def operated(name: str, values: list[Any]) -> Any:
    """An operator on known values."""
    kinds = {type(value) for value in values}
    numbers = kinds == {int}
    if name == "+" and str in kinds:
        return "".join(str(value) for value in values)
    if name in ("=", "<>"):
        if len(kinds) > 1:
            raise Fails
        return (values[0] == values[1]) is (name == "=")
    if not numbers or (name in "/%" and values[1] == 0):
        raise Fails
    if name == "negative":
        return -values[0]
    a, b = values
    whole = 0 if name not in "/%" else int(abs(a) // abs(b)) * (1 if a * b >= 0 else -1)
    table = {"+": a + b, "-": a - b, "*": a * b, "/": whole, "%": a - whole * b}
    return table[name] if name in table else {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[name]


def evaluated(text: str) -> Any:
    assume(len(text) <= MAX_LENGTH and text.count("-(") + text.count("NOT") < MAX_DEPTH // 2)
    try:
        return condition(parse_filter(text, {}))(MessageProperties(make_message(PROPERTIES)))
    except FilterError:
        return FAILURE


def expected(tree: Tree) -> Any:
    try:
        return model(tree)
    except Fails:
        return FAILURE


@settings(max_examples=400, deadline=None)
@given(PREDICATES)
def test_filters_mean_what_the_model_says(tree: Tree) -> None:
    assert evaluated(written(tree)) is expected(tree)


@settings(max_examples=150, deadline=None)
@given(PREDICATES, PREDICATES, PREDICATES)
def test_the_laws_of_three_values_hold(first: Tree, second: Tree, third: Tree) -> None:
    a, b, c = (f"({written(tree)})" for tree in (first, second, third))
    if FAILURE in (evaluated(a), evaluated(b), evaluated(c)):
        return
    for left, right in (
        (f"NOT NOT {a}", a),
        (f"NOT ({a} AND {b})", f"NOT {a} OR NOT {b}"),
        (f"NOT ({a} OR {b})", f"NOT {a} AND NOT {b}"),
        (f"{a} AND {b}", f"{b} AND {a}"),
        (f"{a} OR {b}", f"{b} OR {a}"),
        (f"{a} AND ({b} AND {c})", f"({a} AND {b}) AND {c}"),
        (f"{a} OR ({b} OR {c})", f"({a} OR {b}) OR {c}"),
        (f"{a} AND ({b} OR {c})", f"{a} AND {b} OR {a} AND {c}"),
        (f"{a} AND {a}", a),
        (f"{a} OR {a} AND {b}", a),
    ):
        if max(len(left), len(right)) <= 1024:
            assert evaluated(left) is evaluated(right), (left, right)


@settings(max_examples=200, deadline=None)
@given(st.text("ab%_", max_size=8), st.text("ab", max_size=8))
def test_like_agrees_with_another_matcher(pattern: str, text: str) -> None:
    other = fnmatch.fnmatchcase(text, pattern.replace("%", "*").replace("_", "?"))
    assert evaluated(f"'{text}' LIKE '{pattern}'") is other


@settings(max_examples=100, deadline=None)
@given(st.text("ab%_!", max_size=8), st.text("ab%_!", max_size=8))
def test_an_escaped_pattern_matches_itself_and_nothing_else(pattern: str, text: str) -> None:
    escaped = "".join(f"!{character}" if character in "%_!" else character for character in pattern)
    assert evaluated(f"'{text}' LIKE '{escaped}' ESCAPE '!'") is (text == pattern)
