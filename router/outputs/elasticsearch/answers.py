"""What the answers of Elasticsearch and OpenSearch mean. Pure. An answer's reason may quote a value of the row, so none is repeated as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Final

import orjson


class Fate(Enum):
    """Of an operation.

    STALE: the document has the version that was sent, or a higher one. RACED: another operation added one of its fields at the same moment, with
    another type; sent again, it meets the field as one that is there, as any later operation does.
    """

    DONE = auto()
    STALE = auto()
    BUSY = auto()
    LATER = auto()
    REFUSED = auto()
    RACED = auto()
    UNFIT = auto()
    MISSING = auto()


@dataclass(frozen=True, slots=True)
class Answer:
    """`words`: without a value of a row. `current`: of a STALE one, the version that the document has, or had before it was deleted. `field`: of
    a RACED one, with its path."""

    fate: Fate
    words: str = ""
    hint: str | None = None
    current: int | None = None
    field: str | None = None


DONE: Final = Answer(Fate.DONE)

_CURRENT = re.compile(r"current version \[(\d+)\]")
_FIELD = re.compile(
    r"\b(?:field(?: name)?|mapper|object mapping) \[([^\[\]]{1,200})\](?: of type \[(\w+)\])?|term in field=\"([^\"]{1,200})\""
)
_RACED = re.compile(
    r"mapper \[(.+?)\] cannot be changed from type \[|can't merge a non.object mapping \[(.+?)\] with an object",
    re.DOTALL,
)
"""Shards learn of new fields one after the other: each lets a document add the field that it does not know, and the master takes the first one.
A shard that has learned gives another answer. A document that contradicts itself, with a number and a text in one array, gets this one each time.
A field's name may have brackets itself."""
_BLOCK = re.compile(r"\[[A-Z_]+/\d+/([^\]]*)\]")

_BUSY: Final = {"es_rejected_execution_exception", "rejected_execution_exception", "circuit_breaking_exception"}
_BUSY_HINT = (
    "the server has too much to do: it is tried again, more slowly; look at its heap, disks and shards if it lasts"
)
_RIGHT_HINT = (
    "give the user of this output the rights on docs/outputs/elasticsearch.md, or correct its user, key or token"
)
_STRANGE_HINT = "the answer is none that Elasticsearch or OpenSearch gives: check urls, and what is in between"
_MISSING_HINT = 'create the index, for example with provision = "create" or by what dstream plan prints'
_BLOCKS: Final = {
    "read-only-allow-delete": "its disks are nearly full: free space; the block is removed by itself, on old servers by hand",
    "read-only": "the index is read-only: remove the block index.blocks.read_only",
}
_UNFIT: Final[Mapping[str, str]] = {
    "Limit of total fields": "raise index.mapping.total_fields.limit of the index",
    "no write index is defined": "mark one index of the alias as its write index (is_write_index)",
    "Limit of mapping depth": "raise index.mapping.depth.limit of the index",
}
"""By what the reason of a 400 has: it is the index's fault, not that of one message."""


def answers(body: bytes, count: int) -> Sequence[Answer]:
    """Of each operation of a request, in order. Raises ValueError for what is no answer to it."""
    found = orjson.loads(body)
    items = found.get("items") if isinstance(found, dict) else None
    if not isinstance(items, list) or len(items) != count:
        raise ValueError(f"it answers {len(items) if isinstance(items, list) else 'no'} of {count} operations")
    return [_of_item(next(iter(item.values()))) for item in items]


def _of_item(item: Mapping[str, Any]) -> Answer:
    status, error = int(item["status"]), item.get("error")
    if 200 <= status < 300 or (status == 404 and error is None):
        return DONE  # a delete of what is not there is answered with 404, and leaves its version
    answer = of_error(status, error)
    if answer.fate is Fate.REFUSED and (field := _raced(_parts(error)[1])) is not None:
        return replace(answer, fate=Fate.RACED, field=field)
    return answer


def of_error(status: int, error: object) -> Answer:
    """Of one operation, or of a whole request."""
    kind, reason = _parts(error)
    words = f"{status} {kind}".strip()
    if kind == "version_conflict_engine_exception":
        found = _CURRENT.search(reason)
        return Answer(Fate.STALE, words, current=int(found[1]) if found else None)
    if kind in _BUSY or (status == 429 and kind != "cluster_block_exception"):
        return Answer(Fate.BUSY, words, _BUSY_HINT)
    if kind == "cluster_block_exception":
        return _blocked(words, reason)
    if kind == "index_not_found_exception" or (status == 404 and not kind):
        return Answer(Fate.MISSING, words, _MISSING_HINT)
    if kind == "index_closed_exception":
        return Answer(Fate.UNFIT, words, "open the index, or let the alias name another one")
    if status in (401, 403):
        return Answer(Fate.UNFIT, words, _RIGHT_HINT)
    if status >= 500 or status in (408, 409):
        return Answer(Fate.LATER, words)
    if status in (400, 413, 422):
        return _of_content(words, kind, reason)
    return Answer(Fate.LATER, words, _STRANGE_HINT)


def _of_content(words: str, kind: str, reason: str) -> Answer:
    """A 413 without a type is about a size all the same; another answer without one is not about what was sent."""
    if not kind and not words.startswith("413"):
        return Answer(Fate.LATER, words, _STRANGE_HINT)
    for begin, hint in _UNFIT.items():
        if begin in reason:
            return Answer(Fate.UNFIT, f"{words}: {begin}", hint)
    field = _field(reason)
    if kind == "strict_dynamic_mapping_exception":
        return Answer(
            Fate.UNFIT, words + field, "the index takes no new fields: add the table's columns to its mapping"
        )
    return Answer(Fate.REFUSED, words + field)


def _blocked(words: str, reason: str) -> Answer:
    found = _BLOCK.search(reason)
    what = found[1] if found else ""
    hint = next((hint for block, hint in _BLOCKS.items() if block in reason), None)
    return Answer(
        Fate.LATER, f"{words}: {what}" if what else words, hint or "remove the block of the index or the cluster"
    )


def _field(reason: str) -> str:
    found = _FIELD.search(reason)
    if found is None:
        return "" if (raced := _raced(reason)) is None else f" in field {raced}"
    of_type = f" of type {found[2]}" if found[2] else ""
    return f" in field {found[1] or found[3]}{of_type}"


def _raced(reason: str) -> str | None:
    """The field for which the document came too late. None: it is about something else."""
    found = _RACED.search(reason)
    return None if found is None else found[1] or found[2]


def _parts(error: object) -> tuple[str, str]:
    """Type and reason. A proxy may answer in a form of its own."""
    if not isinstance(error, Mapping):
        return "", ""
    causes = [error, error.get("caused_by")]
    reason = " ".join(str(each.get("reason", "")) for each in causes if isinstance(each, Mapping))
    return str(error.get("type", "")), reason


def error_of(body: bytes) -> object:
    """What a whole answer says under `error`."""
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found.get("error") if isinstance(found, dict) else None
