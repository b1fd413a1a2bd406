"""What is wrong with an index that exists, and what should be known of it."""

from __future__ import annotations

from typing import Any

import pytest

from router.outputs.elasticsearch.index import body_of, faults, has_field, weaknesses
from router.outputs.elasticsearch.settings import ElasticsearchSettings


def settings(**more: Any) -> ElasticsearchSettings:
    return ElasticsearchSettings.model_validate({"type": "opensearch", "urls": ("http://localhost",), **more})


def behind(*writes: bool, **more: Any) -> dict[str, Any]:
    """The indexes behind the alias `p`."""
    return {f"p-{number}": {"aliases": {"p": {"is_write_index": each}}, **more} for number, each in enumerate(writes)}


def test_rows_need_one_index_behind_the_alias() -> None:
    assert list(faults(settings(), "p", behind(True))) == []
    [(text, _)] = faults(settings(), "p", behind(True, False))
    assert "2 indexes" in text
    assert list(faults(settings(mode="append"), "p", behind(True, False))) == []


@pytest.mark.parametrize("writes", [(), (False, False), (True, True)])
def test_exactly_one_index_takes_writes(writes: tuple[bool, ...]) -> None:
    [(text, _)] = faults(settings(mode="append"), "p", behind(*writes))
    assert text.endswith("of its indexes take writes")


def test_an_index_that_is_made_is_as_it_should_be() -> None:
    for each in (settings(), settings(deletes="remove"), settings(mode="append")):
        made = {"p-000001": body_of(each, "p")}
        assert (list(faults(each, "p", made)), list(weaknesses(each, "p", made))) == ([], [])


def test_what_should_be_known_is_said() -> None:
    unsafe = behind(True, settings={"index": {"translog": {"durability": "ASYNC"}, "gc_deletes": "1h"}})
    [(text, _)] = weaknesses(settings(mode="append"), "p", unsafe)
    assert "async" in text
    assert [text[:8] for text, _ in weaknesses(settings(), "p", unsafe)] == ["p-0 has ", "searches"]
    assert len(list(weaknesses(settings(deletes="remove"), "p", unsafe))) == 1


@pytest.mark.parametrize(
    ("path", "there"),
    [("a", True), ("a.b", True), ("a.b.c", False), ("b", False), ("x.y", True), ("x.y.z", True), ("x", False)],
)
def test_a_field_is_found_by_its_path(path: str, there: bool) -> None:
    mapping = {
        "properties": {
            "a": {"properties": {"b": {"type": "long"}}},
            "x.y": {"properties": {"z": {"type": "text"}}},  # without subobjects
        }
    }
    assert has_field(mapping, path) is there
    assert not has_field({}, path)
