"""One index as both products keep it, in memory: external versions, removed documents that are remembered, values that a mapping refuses,
and the race of documents that bring one field with several types."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from common.errors import TransientError
from router.outputs.elasticsearch.answers import DONE, Answer, Fate
from router.outputs.elasticsearch.bulk import Found, Place

_STALE = Answer(Fate.STALE, "409 version_conflict_engine_exception")


class FakeIndex(Place):
    """`refuses`: a text that no document may have. `torn`: one with which a document contradicts itself. `said`: what the next requests are answered
    with. `requests`: how many came. `fields`: the type of each.

    As in an index where each document is in another shard: in the request that brings a field, the first one decides its type. `slow`: the moment
    of `clock` until which the nodes do not know the fields of `fields`, and let each document bring its own.
    """

    def __init__(self, *, refuses: str = "\x00", torn: str = "\x00") -> None:
        self.name, self.alias = "shop.dbo.persons", True
        self.documents: dict[str, dict[str, Any]] = {}
        self.versions: dict[str, int] = {}
        self.said: list[Answer | TransientError] = []
        self.requests = 0
        self.fields: dict[str, type] = {}
        self.slow = 0.0
        self.clock: Callable[[], float] = lambda: 0.0
        self.hidden: TransientError | None = None
        self._refuses, self._torn = refuses, torn

    def write(self, lines: Sequence[bytes], until: float) -> Sequence[Answer]:
        self.requests += 1
        if self.said:
            answer = self.said.pop(0)
            if isinstance(answer, TransientError):
                raise answer
            return [answer] * len(lines)
        known = frozenset(self.fields if self.clock() >= self.slow else ())
        return [self._one(known, *map(json.loads, line.decode().splitlines())) for line in lines]

    def _one(self, known: Collection[str], action: Mapping[str, Any], document: dict[str, Any] | None = None) -> Answer:
        [(kind, head)] = action.items()
        id, version, current = head["_id"], head.get("version", 1), self.versions.get(head["_id"], -1)
        if document is not None and self._refuses in json.dumps(document):
            return Answer(Fate.REFUSED, "400 mapper_parsing_exception in field Total of type integer")
        if document is not None and (field := self._lost(known, document)) is not None:
            return Answer(Fate.RACED, f"400 illegal_argument_exception in field {field}", field=field)
        if version < current or (version == current and head.get("version_type") != "external_gte"):
            return Answer(Fate.STALE, _STALE.words, current=current)
        self.versions[id] = version
        if kind == "delete" or document is None:
            self.documents.pop(id, None)
        else:
            self.documents[id] = document
        return DONE

    def _lost(self, known: Collection[str], document: Mapping[str, Any]) -> str | None:
        """The field for which the document comes too late. Its others are not added then."""
        new = {name: type(value) for name, value in document.items() if name not in known and value is not None}
        for name, kind in new.items():
            if self.fields.get(name, kind) is not kind or document[name] == self._torn:
                return name
        self.fields |= new
        return None

    def probe(self, until: float) -> Answer:
        answer = self.said.pop(0) if self.said else _STALE
        if isinstance(answer, TransientError):
            raise answer
        return answer

    def mapping(self, until: float) -> Mapping[str, Any]:
        if self.hidden is not None:
            raise self.hidden
        return {"properties": {name: {"type": kind.__name__} for name, kind in self.fields.items()}}

    def exists(self, until: float) -> bool:
        return False

    def find(self, ids: Sequence[str], until: float) -> Mapping[str, Found]:
        self.requests += 1
        found = [id for id in ids if id in self.documents]
        return {id: Found(self.versions[id], self.documents[id].get("_dstream", {}).get("position")) for id in found}
