"""Reading documents by their id: an error of one of them is never taken for a document that is not there."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from common.errors import TransientError
from router.outputs.elasticsearch.answers import Answer, Fate
from router.outputs.elasticsearch.bulk import Found, Place
from router.outputs.elasticsearch.client import Client, Response
from router.outputs.elasticsearch.lasting import LastingRaces

_THERE = {
    "_index": "p-000001",
    "_id": "1",
    "_version": 7,
    "found": True,
    "_source": {"_dstream": {"position": "00-1"}},
}
_ABSENT = {"_index": "p-000001", "_id": "2", "found": False}
_FAILED = {
    "_index": "p-000001",
    "_id": "2",
    "error": {"type": "no_shard_available_action_exception", "reason": "No shard for [get [p][2]: Diana]"},
}
_SEVERAL = {
    "_index": "p",
    "_id": "2",
    "error": {"type": "illegal_argument_exception", "reason": "alias [p] has more than one index"},
}


class Answering:
    """A client that always gets one answer."""

    def __init__(self, body: object, status: int = 200) -> None:
        self._body, self._status = json.dumps(body).encode(), status

    def request(self, *_: object, **__: object) -> Response:
        return Response(self._status, self._body)


def answered(body: object, status: int = 200) -> Place:
    return Place(cast(Client, Answering(body, status)), "p")


def place(*documents: dict[str, Any]) -> Place:
    return answered({"docs": documents})


def test_a_document_that_is_not_found_is_absent() -> None:
    assert place(_THERE, _ABSENT).find(["1", "2"], 0.0) == {"1": Found(7, "00-1")}


@pytest.mark.parametrize("failed", [_FAILED, _SEVERAL], ids=["no shard", "several indexes"])
def test_a_document_that_cannot_be_read_is_not_taken_for_absent(failed: dict[str, Any]) -> None:
    with pytest.raises(TransientError, match=failed["error"]["type"]) as raised:
        place(_THERE, failed).find(["1", "2"], 0.0)
    assert "Diana" not in str(raised.value)


@pytest.mark.parametrize("documents", [(_THERE,), (_THERE, {"_id": "2"}), (_THERE, _THERE)])
def test_an_answer_that_leaves_a_document_out_is_none(documents: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(TransientError, match="cannot be read"):
        place(*documents).find(["1", "2"], 0.0)


_FIELDS = {"properties": {"a": {"type": "long"}}}


def index(fields: object = _FIELDS, **alias: object) -> dict[str, object]:
    """`alias`: what the index says of the alias p."""
    return {"aliases": {"p": alias}, "mappings": fields}


@pytest.mark.parametrize(
    "body",
    [
        {"p-1": index({}), "p-2": index(is_write_index=True)},
        {"p-1": index({}, is_write_index=False), "p-2": index(is_write_index=True)},
        {"p-1": index()},
        {"p": {"aliases": {"other": {}}, "mappings": _FIELDS}},
        {"p": {"mappings": _FIELDS}},
    ],
    ids=["rollover", "a former write index", "one index without the mark", "no alias", "no aliases"],
)
def test_the_mapping_is_that_of_the_index_that_takes_writes(body: object) -> None:
    assert answered(body).mapping(0.0) == _FIELDS


@pytest.mark.parametrize("older", [_FIELDS, {}], ids=["the older index has the field", "no index has it"])
def test_a_field_of_an_index_that_takes_no_writes_is_none_that_another_document_has_brought(older: object) -> None:
    raced = Answer(Fate.RACED, "400 in field a", field="a")
    place = answered({"p-1": index(older, is_write_index=False), "p-2": index({}, is_write_index=True)})
    assert LastingRaces(place, 0.0).answer(raced) is None
    later = LastingRaces(answered({"p-1": index({}), "p-2": index(is_write_index=True)}), 0.0).answer(raced)
    assert later is not None
    assert later.fate is Fate.LATER


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"error": {"type": "security_exception", "reason": "no"}}, 403, "403 security_exception"),
        ({"p": {}}, 200, "cannot be read: KeyError"),
        ([], 200, "cannot be read: AttributeError"),
        ({"p-1": []}, 200, "cannot be read: AttributeError"),
        ({}, 200, "0 of its indexes take writes"),
        ({"p-1": index(), "p-2": index()}, 200, "0 of its indexes take writes"),
        ({"p-1": index(is_write_index=False)}, 200, "0 of its indexes take writes"),
    ],
)
def test_a_mapping_that_cannot_be_read_is_a_fault(body: object, status: int, words: str) -> None:
    with pytest.raises(TransientError, match=f"reading the mapping of p: .*{words}"):
        answered(body, status).mapping(0.0)
