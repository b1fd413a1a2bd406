"""Answers as Elasticsearch 8 and OpenSearch 2 give them, and what each means. No value of a row is repeated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from router.outputs.elasticsearch.answers import Answer, Fate, answers, error_of, of_error

_STALE = "[2]: version conflict, current version [30] is higher or equal to the one provided [25]"
_MAPPING = "failed to parse field [a] of type [long] in document with id 'Diana'. Preview of field's value: 'Prince'"
_ES8 = (
    "[1:7] failed to parse field [born] of type [date] in document with id 'Diana'. Preview of field's value: 'Prince'"
)
_TERM = (
    'Document contains at least one immense term in field="note" (whose UTF8 encoding is longer than the max length 32766), all of which were '
    "skipped. Please correct the analyzer to not produce such terms. The prefix of the first immense term is: '[80, 114, 105, 110, 99, 101]...'"
)
_TYPES = "mapper [C4] cannot be changed from type [double] to [text]"
_OBJECT = "can't merge a non object mapping [C4] with an object mapping"
_FLOOD = "index [p] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];"


def item(status: int, kind: str | None = None, reason: str = "", operation: str = "index") -> dict[str, Any]:
    found: dict[str, Any] = {"status": status}
    if kind is not None:
        found["error"] = {"type": kind, "reason": reason}
    return {operation: found}


@pytest.mark.parametrize(
    ("given", "fate"),
    [
        (item(201), Fate.DONE),
        (item(200, operation="delete"), Fate.DONE),
        (item(404, operation="delete"), Fate.DONE),
        (item(409, "version_conflict_engine_exception", _STALE), Fate.STALE),
        (item(429, "es_rejected_execution_exception", "rejected execution of primary operation"), Fate.BUSY),
        (item(429, "rejected_execution_exception", "rejected execution of coordinating operation"), Fate.BUSY),
        (item(429, "circuit_breaking_exception", "[parent] Data too large"), Fate.BUSY),
        (item(429, "cluster_block_exception", _FLOOD), Fate.LATER),
        (
            item(403, "cluster_block_exception", "index [p] blocked by: [FORBIDDEN/5/index read-only (api)];"),
            Fate.LATER,
        ),
        (item(503, "unavailable_shards_exception", "primary shard is not active"), Fate.LATER),
        (item(500, "process_cluster_event_timeout_exception", ""), Fate.LATER),
        (item(400, "mapper_parsing_exception", _MAPPING), Fate.REFUSED),
        (item(400, "document_parsing_exception", _ES8), Fate.REFUSED),
        (item(400, "illegal_argument_exception", _TERM), Fate.REFUSED),
        (item(400, "illegal_argument_exception", _TYPES), Fate.RACED),
        (item(400, "illegal_argument_exception", _OBJECT, operation="create"), Fate.RACED),
        (item(400, "illegal_argument_exception", "Limit of total fields [1000] has been exceeded"), Fate.UNFIT),
        (
            item(400, "strict_dynamic_mapping_exception", "mapping set to strict, dynamic introduction of [b]"),
            Fate.UNFIT,
        ),
        (item(400, "illegal_argument_exception", "no write index is defined for alias [p]."), Fate.UNFIT),
        (item(403, "security_exception", "action [indices:data/write/bulk[s]] is unauthorized"), Fate.UNFIT),
        (item(400, "index_closed_exception", "closed"), Fate.UNFIT),
        (item(404, "index_not_found_exception", "no such index [p]", operation="delete"), Fate.MISSING),
        (item(302), Fate.LATER),
    ],
)
def test_what_an_operations_answer_means(given: dict[str, Any], fate: Fate) -> None:
    [found] = answers(json.dumps({"errors": True, "items": [given]}).encode(), 1)
    assert found.fate is fate
    assert (
        fate in (Fate.DONE, Fate.STALE, Fate.REFUSED, Fate.RACED)
        or found.hint
        or found.words.startswith(("500", "503"))
    )
    for value in ("Diana", "Prince", "80, 114"):
        assert value not in f"{found.words} {found.hint}"


def test_the_words_have_what_a_person_needs() -> None:
    assert of_error(400, {"type": "mapper_parsing_exception", "reason": _MAPPING}).words == (
        "400 mapper_parsing_exception in field a of type long"
    )
    assert of_error(400, {"type": "illegal_argument_exception", "reason": _TERM}).words.endswith("in field note")
    for reason in (_TYPES, _OBJECT):
        assert of_error(400, {"type": "illegal_argument_exception", "reason": reason}).words.endswith("in field C4")
    block = of_error(429, {"type": "cluster_block_exception", "reason": _FLOOD})
    assert block.words == (
        "429 cluster_block_exception: disk usage exceeded flood-stage watermark, index has read-only-allow-delete block"
    )
    assert "free space" in str(block.hint)


def raced(reason: str, path: str) -> Answer:
    given = item(400, "illegal_argument_exception", reason.replace("C4", path))
    [found] = answers(json.dumps({"items": [given]}).encode(), 1)
    return found


@pytest.mark.parametrize("path", ["data.C4", "data.Price [EUR]", "[a]", "a[b", "a]b", "a] [b", "a\nb"])
@pytest.mark.parametrize("reason", [_TYPES, _OBJECT])
def test_the_answer_of_a_race_has_the_path_of_its_field(reason: str, path: str) -> None:
    found = raced(reason, path)
    assert (found.fate, found.field) == (Fate.RACED, path)


@pytest.mark.parametrize("reason", [_TYPES, _OBJECT])
def test_races_for_fields_with_brackets_are_told_apart_by_their_words(reason: str) -> None:
    for path in ("data.Price [EUR]", "data.Price [USD]"):
        assert raced(reason, path).words == f"400 illegal_argument_exception in field {path}"


def test_a_stale_answer_has_the_present_version() -> None:
    assert of_error(409, {"type": "version_conflict_engine_exception", "reason": _STALE}).current == 30
    assert of_error(409, {"type": "version_conflict_engine_exception", "reason": "[2]: it exists"}).current is None


@pytest.mark.parametrize(
    ("status", "body", "fate"),
    [
        (
            401,
            b'{"error":{"type":"security_exception","reason":"missing authentication credentials"},"status":401}',
            Fate.UNFIT,
        ),
        (401, b"Unauthorized", Fate.UNFIT),
        (403, b"<html>no</html>", Fate.UNFIT),
        (404, b'{"error":"no handler"}', Fate.MISSING),
        (413, b"<html>too large</html>", Fate.REFUSED),
        (400, b"<html>bad request</html>", Fate.LATER),
        (422, b'{"message":"no"}', Fate.LATER),
        (400, b'{"error":{"type":"illegal_argument_exception","reason":"no"}}', Fate.REFUSED),
        (429, b"", Fate.BUSY),
        (502, b"<html>bad gateway</html>", Fate.LATER),
        (
            503,
            b'{"error":{"type":"cluster_block_exception","reason":"blocked by: [SERVICE_UNAVAILABLE/2/no master];"}}',
            Fate.LATER,
        ),
        (301, b"", Fate.LATER),
    ],
)
def test_what_a_whole_answer_means(status: int, body: bytes, fate: Fate) -> None:
    assert of_error(status, error_of(body)).fate is fate


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"items": []}', b'{"items": [{}, {}]}'])
def test_what_is_no_answer_is_not_taken_for_one(body: bytes) -> None:
    with pytest.raises((ValueError, StopIteration)):
        answers(body, 1)
