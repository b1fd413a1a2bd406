"""One key has one id, and no two keys share one; no id is too long or empty."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.outputs.elasticsearch.ids import LIMIT, id_of
from router.outputs.rows.change import Key
from router.outputs.rows.values import Number, Value


@pytest.mark.parametrize(
    ("key", "id"),
    [
        ((Number("180"),), "180"),
        (("Praha 🐎",), "Praha 🐎"),
        (("A", Number("7"), None, True), '["A",7,null,true]'),
        ((None,), "[null]"),
        ((True,), "[true]"),
        (("",), '[""]'),
        (("[null]",), '["[null]"]'),
        (("\ud83d",), '["\\ud83d"]'),
        (("a\u0000b",), "a\u0000b"),
    ],
)
def test_ids(key: Key, id: str) -> None:
    assert id_of(key) == id


def test_a_long_key_is_hashed() -> None:
    assert id_of(("x" * LIMIT,)) == "x" * LIMIT
    hashed = id_of(("x" * (LIMIT + 1),))
    assert len(hashed) == 66
    assert hashed.startswith("[#")
    assert hashed != id_of(("x" * (LIMIT + 2),))


_VALUES: st.SearchStrategy[Value] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3).map(lambda number: Number(str(number))),
    st.text(st.sampled_from('[]",ab1 \ud83d'), max_size=4),
    st.sampled_from(["null", "true", "1", "[1]", "x" * 600, "é" * 300]),
)
_KEYS = st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[_VALUES] * width), min_size=2, max_size=2))


@given(_KEYS)
def test_different_keys_of_a_table_have_different_ids(keys: list[Key]) -> None:
    """The values of one column have one type."""
    one, other = keys
    if any(type(a) is not type(b) and None not in (a, b) for a, b in zip(one, other, strict=True)):
        return
    assert (one == other) == (id_of(one) == id_of(other))
    for key in keys:
        assert 0 < len(id_of(key).encode()) <= LIMIT
        json.dumps(id_of(key))
