"""What is wrong with an index that exists, and what should be known of it."""

from __future__ import annotations

from typing import Any

import pytest

from router.outputs.elasticsearch.index import faults
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
