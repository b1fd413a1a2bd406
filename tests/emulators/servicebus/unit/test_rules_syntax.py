"""The SQL of filters and actions: what the grammar has, and where an error is said to be."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulators.servicebus.rules import InvalidRule
from emulators.servicebus.rules.parser import MAX_DEPTH, parse_action, parse_filter
from emulators.servicebus.rules.syntax import (
    And,
    Chain,
    Comparison,
    Constant,
    Exists,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    Property,
    PropertyNamed,
    Remove,
    Set,
    Unary,
)

A = Property("a", system=False)
ONE = Constant(1)
TRUE = Comparison(A, "=", ONE)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a = 1", TRUE),
        ("  a\n=\t1 ", TRUE),
        ("user.a = 1", TRUE),
        ("USER.[a] = 1", TRUE),
        ("[a] = 1", TRUE),
        ('"a" = 1', TRUE),
        ("(((a) = (1)))", TRUE),
        ("sys.Label = 1", Comparison(Property("Label", system=True), "=", ONE)),
        ("Sys.Label = 1", Comparison(Property("Label", system=True), "=", ONE)),
        ("sys = 1", Comparison(Property("sys", system=False), "=", ONE)),
        ("[a ]] b] = 1", Comparison(Property("a ] b", system=False), "=", ONE)),
        ('"a "" b" = 1', Comparison(Property('a " b', system=False), "=", ONE)),
        ("[and] = 1", Comparison(Property("and", system=False), "=", ONE)),
        ("größe_2 = 1", Comparison(Property("größe_2", system=False), "=", ONE)),
        ("a != 1", Comparison(A, "<>", ONE)),
        ("a <> 1", Comparison(A, "<>", ONE)),
        ("a >= 1", Comparison(A, ">=", ONE)),
        ("a<1", Comparison(A, "<", ONE)),
        ("a = 'it''s'", Comparison(A, "=", Constant("it's"))),
        ("a = ''", Comparison(A, "=", Constant(""))),
        ("a = 2.0", Comparison(A, "=", Constant(2.0))),
        ("a = 101.5E5", Comparison(A, "=", Constant(101.5e5))),
        ("a = 0.5E-2", Comparison(A, "=", Constant(0.005))),
        ("a = true", Comparison(A, "=", Constant(True))),
        ("a = FALSE", Comparison(A, "=", Constant(False))),
        ("a = null", Comparison(A, "=", Constant(None))),
        ("a = 9223372036854775807", Comparison(A, "=", Constant((1 << 63) - 1))),
        ("a = -9223372036854775808", Comparison(A, "=", Constant(-(1 << 63)))),
        ("a = - 1", Comparison(A, "=", Unary("-", ONE))),
        ("a = 1 - -1", Comparison(A, "=", Chain(ONE, (("-", Unary("-", ONE)),)))),
        ("a IS NULL", IsNull(A)),
        ("a is not null", Not(IsNull(A))),
        ("EXISTS(a)", Exists(A)),
        ("NOT EXISTS ( sys.To )", Not(Exists(Property("To", system=True)))),
        ("a IN (1)", In(A, (ONE,))),
        ("a NOT IN (1, a, 'x')", Not(In(A, (ONE, A, Constant("x"))))),
        ("a LIKE 'x%'", Like(A, Constant("x%"), None)),
        ("a NOT LIKE 'x' ESCAPE '!'", Not(Like(A, Constant("x"), Constant("!")))),
        ("property('a') = 1", Comparison(PropertyNamed(Constant("a")), "=", ONE)),
        ("P(a) = 1", Comparison(PropertyNamed(A), "=", ONE)),
        ("p = 1", Comparison(Property("p", system=False), "=", ONE)),
        ("NOT a = 1 AND a = 1", And((Not(TRUE), TRUE))),
        ("a = 1 OR a = 1 AND a = 1", Or((TRUE, And((TRUE, TRUE))))),
        ("(a = 1 OR a = 1) AND a = 1", And((Or((TRUE, TRUE)), TRUE))),
        ("a = 1 OR a = 1 OR a = 1", Or((TRUE, TRUE, TRUE))),
        ("1 + 1 * 1 = a", Comparison(Chain(ONE, (("+", Chain(ONE, (("*", ONE),))),)), "=", A)),
        ("(1 + 1) * 1 = a", Comparison(Chain(Chain(ONE, (("+", ONE),)), (("*", ONE),)), "=", A)),
        ("1 - 1 + 1 = a", Comparison(Chain(ONE, (("-", ONE), ("+", ONE))), "=", A)),
    ],
)
def test_a_filter_is_read(text: str, tree: Predicate) -> None:
    assert parse_filter(text, {}) == tree


@pytest.mark.parametrize("name", ["@p", "@P", "p"])
def test_a_parameter_stands_for_its_value(name: str) -> None:
    assert parse_filter("a = @p", {name: 1}) == TRUE


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", 1, "expected a value, a property or '(', but the expression ends"),
        ("a", 1, "expected a condition, but found a mere value"),
        ("a =", 4, "expected a value"),
        ("a = 1 b", 7, "expected an operator or the end of the expression, but found a name 'b'"),
        ("a = 1)", 6, "expected an operator or the end"),
        ("(a = 1", 7, "expected ')'"),
        ("a = 'x", 5, "expected ' to end what ' begins here"),
        ("[a = 1", 1, "expected ] to end what [ begins here"),
        ("[] = 1", 1, "expected a name"),
        ("a = 1 # b", 7, "'#' begins no word"),
        ("_a = 1", 1, "'_' begins no word"),
        ("a = 12x", 7, "expected an operator behind the number 12"),
        ("a = 9223372036854775808", 5, "out of the range of a 64-bit integer"),
        ("a = 99999999999999999999", 5, "out of the range of a 64-bit integer"),
        ("a = 1e999", 5, "out of the range of a double"),
        ("a = @p", 5, "the parameter @p has no value"),
        ("a = @", 5, "expected the name of a parameter"),
        ("message.a = 1", 1, "expected the scope sys or user before '.', but found 'message'"),
        ("sys. = 1", 6, "expected the name of a property"),
        ("upper(a) = 'A'", 1, "expected the function newid, property or p, but found 'upper'"),
        ("newid(1) = a", 7, "expected ')'"),
        ("a IS 1", 6, "expected NULL"),
        ("1 IS NULL", 1, "expected a property before IS NULL"),
        ("a IN ()", 7, "expected a value"),
        ("a IN 1", 6, "expected '('"),
        ("a NOT 1", 7, "expected IN or LIKE"),
        ("EXISTS(1)", 8, "expected the name of a property"),
        ("EXISTS(property('a'))", 16, "expected ')'"),
        ("a = 1 AND b", 11, "expected a condition"),
        ("a = 1 = 1", 7, "expected an operator or the end"),
        ("(a = 1) + 1 = 2", 1, "expected a value, but found a condition"),
        ("(a = 1) = TRUE", 1, "expected a value, but found a condition"),
        ("NOT 1", 5, "expected a condition"),
        ("and = 1", 1, "expected a value"),
        ("a == 1", 4, "expected a value"),
        ("a = 1; DROP TABLE b", 6, "expected an operator or the end"),
    ],
)
def test_an_error_says_where_it_is_and_what_was_expected(text: str, where: int, what: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        parse_filter(text, {})
    assert str(caught.value).startswith(f"at position {where}: ")
    assert what in str(caught.value)


def test_an_expression_has_1024_characters_and_not_one_more() -> None:
    longest = "a = '" + "x" * 1018 + "'"
    parse_filter(longest, {})
    with pytest.raises(InvalidRule, match="at most 1024 characters, this one has 1025"):
        parse_filter(longest + " ", {})


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("NOT ", ""), ("NOT (", ")")])
def test_nesting_has_an_end(opening: str, closing: str) -> None:
    levels = MAX_DEPTH // (2 if opening == "NOT (" else 1)
    parse_filter(opening * levels + "a = 1" + closing * levels, {})
    with pytest.raises(InvalidRule, match="nested more than"):
        parse_filter(opening * (levels + 1) + "a = 1" + closing * (levels + 1), {})


def test_a_long_chain_is_not_deep() -> None:
    assert parse_filter("a=1" + "+1" * 500, {})
    assert parse_filter("a=1" + " OR a=1" * 140, {})


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("SET a = 1", (Set(A, ONE),)),
        ("set a = 1;", (Set(A, ONE),)),
        ("SET a = 1; REMOVE b; SET sys.To = 'x';",
         (Set(A, ONE), Remove(Property("b", system=False)), Set(Property("To", system=True), Constant("x")))),
        ("SET a = 1 REMOVE a", (Set(A, ONE), Remove(A))),
        ("SET a = 1, REMOVE a", (Set(A, ONE), Remove(A))),
        ("REMOVE [set]", (Remove(Property("set", system=False)),)),
    ],
)  # fmt: skip
def test_an_action_is_read(text: str, statements: tuple[Set | Remove, ...]) -> None:
    assert parse_action(text, {}) == statements


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("", 1, "expected SET or REMOVE, but the expression ends"),
        ("a = 1", 1, "expected SET or REMOVE, but found a name 'a'"),
        ("SET a", 6, "expected '='"),
        ("SET a = 1;;", 11, "expected SET or REMOVE"),
        ("SET a = 1,", 11, "expected SET or REMOVE"),
        ("SET a = (1 = 1)", 9, "expected a value, but found a condition"),
        ("SET 1 = 1", 5, "expected the name of a property"),
        ("REMOVE", 7, "expected the name of a property"),
    ],
)
def test_an_error_in_an_action_says_where_it_is(text: str, where: int, what: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        parse_action(text, {})
    assert str(caught.value).startswith(f"at position {where}: ")
    assert what in str(caught.value)


def test_an_action_has_32_statements_and_not_one_more() -> None:
    parse_action("REMOVE a;" * 32, {})
    with pytest.raises(InvalidRule, match="at most 32 statements, this one has 33"):
        parse_action("REMOVE a;" * 33, {})


PIECES = st.sampled_from(
    ["a", "sys.", "user.", "[b c]", '"q"', "'s'", "1", "2.5", "1e3", "@p", "(", ")", ",", ";", "=", "<>", "<", ">=", "+",
     "-", "*", "/", "%", " AND ", " OR ", " NOT ", " IN ", " LIKE ", " ESCAPE ", " IS ", " NULL ", " EXISTS ", " TRUE ",
     " SET ", " REMOVE ", "newid", "property", "p", " ", "'", "[", "@", "!"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.lists(PIECES, max_size=25).map("".join), st.text(max_size=60)))
def test_any_text_is_a_rule_or_an_invalid_one(text: str) -> None:
    for parse in (parse_filter, parse_action):
        with contextlib.suppress(InvalidRule):
            parse(text, {"@p": 1})


@settings(max_examples=50, deadline=None)
@given(st.sampled_from("(-+[\"'@") | st.sampled_from(["NOT ", "p(", "((a", "1+", "a=1 OR "]), st.integers(1, 1100))
def test_no_repetition_exhausts_the_stack(piece: str, times: int) -> None:
    for parse in (parse_filter, parse_action):
        with contextlib.suppress(InvalidRule):
            parse(piece * times, {})
