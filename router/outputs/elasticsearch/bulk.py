"""`_bulk` and `_mget` of one index: requests of bounded size, and what came of each operation. Decides nothing about messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from common.errors import TransientError
from router.outputs.elasticsearch.answers import DONE, Answer, Fate, answers, error_of, of_error
from router.outputs.elasticsearch.client import LINES, Client, Response
from router.outputs.elasticsearch.documents import POSITION
from router.outputs.elasticsearch.index import MARK_ONE, write_indexes

MOST: Final = 4 * 1024 * 1024
"""Bytes of a request, if it has several operations. What stands in front of a cluster often takes ten megabytes, and some only one."""

_ANSWERED = "filter_path=items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason,error"
_UNREAD = "each document must be readable: look at the index's health, and let the alias name one index only"
_NOTHING = b'{"index":{"_id":"dstream-probe","if_seq_no":0,"if_primary_term":1}}\n{}\n'
"""It may only replace a document that does not exist, so it writes nothing; but who may not write, or where nothing is, gets that answer."""


_HALTING: Final = (Fate.MISSING, Fate.UNFIT, Fate.BUSY, Fate.LATER)
"""After which nothing more is written for now."""


@dataclass(frozen=True, slots=True)
class Found:
    """A document that is there. `position`: None where another program has written it."""

    version: int
    position: str | None


class Place:
    """An index, or the alias of one. `alias`: whether the server must refuse to make an index of this name; see `open` in `sender.py`."""

    def __init__(self, client: Client, name: str, *, alias: bool = True) -> None:
        self._client, self.name, self.alias = client, name, alias
        self._path = "/" + quote(name, safe="")

    def write(self, lines: Sequence[bytes], until: float) -> Sequence[Answer]:
        """An answer for each of `lines`, which are operations. Raises TransientError when one is not known."""
        found: list[Answer] = []
        for part in _parts(lines):
            found += self._written(part, until)
            if any(each.fate in _HALTING for each in found if each is not DONE):
                later = Answer(Fate.LATER, "was not sent after the others failed")
                return [*found, *[later] * (len(lines) - len(found))]
        return found

    def _written(self, part: Sequence[bytes], until: float) -> Sequence[Answer]:
        response = self._bulk(b"".join(part), until)
        if response.status == 200:
            return self._read(response, len(part))
        answer = of_error(response.status, error_of(response.body))
        if answer.fate is not Fate.REFUSED:
            return [answer] * len(part)
        if len(part) == 1:
            return [answer]
        half = len(part) // 2  # one of them is too large, or all of them together
        return [*self._written(part[:half], until), *self._written(part[half:], until)]

    def _read(self, response: Response, count: int) -> Sequence[Answer]:
        try:
            return answers(response.body, count)
        except (ValueError, KeyError, TypeError, StopIteration) as error:
            raise TransientError(
                f"writing to {self.name}: the answer cannot be read: {type(error).__name__}",
                hint="check urls: is it Elasticsearch or OpenSearch?",
            ) from error

    def probe(self, until: float) -> Answer:
        """What a write would get. Writes nothing. STALE is good."""
        return self._written([_NOTHING], until)[0]

    def exists(self, until: float) -> bool:
        """Whether there is an index of this name that is no alias. False also without the right to see it."""
        doing = f"looking for {self.name}"
        return self._client.request("HEAD", self._path, until=until, doing=doing).status == 200

    def find(self, ids: Sequence[str], until: float) -> Mapping[str, Found]:
        """The documents among `ids` that exist, as they are now. Only `found: false` says that one does not. Raises TransientError."""
        doing = f"reading documents of {self.name}"
        body = json.dumps({"ids": list(ids)}, ensure_ascii=False).encode()
        path = f"{self._path}/_mget?_source_includes={POSITION}"
        response = self._client.request("POST", path, body, until=until, doing=doing)
        if response.status != 200:
            answer = of_error(response.status, error_of(response.body))
            raise TransientError(
                f"{doing}: {answer.words}", hint=answer.hint or "the user needs the right to read documents"
            )
        try:
            documents = response.json()["docs"]
            if (error := next((each["error"] for each in documents if "error" in each), None)) is not None:
                raise TransientError(f"{doing}: {of_error(500, error).words}", hint=_UNREAD)
            if {each["_id"] for each in documents} != set(ids):
                raise ValueError("it is about other documents")
            return dict(_found(each) for each in documents if each["found"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TransientError(f"{doing}: the answer cannot be read: {type(error).__name__}") from error

    def mapping(self, until: float) -> Mapping[str, Any]:
        """Of the index that takes the writes: others behind the alias may have fields that it lacks. Raises TransientError."""
        doing = f"reading the mapping of {self.name}"
        response = self._client.request("GET", self._path, until=until, doing=doing)
        if response.status != 200:
            answer = of_error(response.status, error_of(response.body))
            raise TransientError(f"{doing}: {answer.words}", hint=answer.hint)
        try:
            found = response.json()
            writes = write_indexes(self.name, found)
            if len(writes) != 1:
                raise TransientError(f"{doing}: {len(writes)} of its indexes take writes", hint=MARK_ONE)
            mapping: Mapping[str, Any] = found[writes[0]]["mappings"]
            return mapping
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TransientError(f"{doing}: the answer cannot be read: {type(error).__name__}") from error

    def _bulk(self, body: bytes, until: float) -> Response:
        """The server's own patience ends with the sender's."""
        alias = "true" if self.alias else "false"
        path = f"{self._path}/_bulk?require_alias={alias}&timeout=20s&{_ANSWERED}"
        return self._client.request("POST", path, body, kind=LINES, until=until, doing=f"writing to {self.name}")


def _parts(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    part, size = list[bytes](), 0
    for line in lines:
        if part and size + len(line) > MOST:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


def _found(document: Mapping[str, object]) -> tuple[str, Found]:
    source, version = document.get("_source"), document["_version"]
    inner = source.get(POSITION.partition(".")[0]) if isinstance(source, dict) else None
    position = inner.get("position") if isinstance(inner, dict) else None
    assert isinstance(version, int)
    return str(document["_id"]), Found(version, position if isinstance(position, str) else None)
