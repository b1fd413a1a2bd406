"""Packs many changes into one message of the ingest queue, and unpacks them: the ingester writes it and the router reads it. Pure.

A packed message's body is a JSON array with a change on each line, each of them byte for byte the body that it has alone. A compact JSON text
holds no line feed (RFC 8259, section 7: control characters in strings are escaped), so the lines are found without parsing JSON. The other
fields of each change's message are in the property `pack_index`, column by column. Refuses to guess: a change that cannot be restored exactly is
not packed, and a packed message that contradicts itself is a named fault. docs/decisions/0015-packing.md has the format and the reasons.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final

from common.bus.dead_letter_text import MAX_REASON, tellable
from common.message import Message, Property, PropertyValue

PACK_TYPE: Final = "application/vnd.dstream.pack+json"
"""Content type of a packed message."""

CHANGE_TYPE: Final = "application/json"
"""Content type of every change in it."""

MOST: Final = 500
"""The most changes in a packed message. A hundred save 99 % of the messages; the limit keeps the index within a property."""

INDEX_BYTES: Final = 30_000
"""Bytes of an index; Service Bus takes 32 KB a property (https://learn.microsoft.com/azure/service-bus-messaging/service-bus-quotas)."""

MOST_CELLS: Final = 65_536
"""The most property values in a pack: names times changes. An index holds one value for all changes in a few bytes; here each takes an entry."""

PREFIX: Final = 1_024
"""The most characters that the values of a column may have in common: the index has them once, and each change has a copy."""

SPARE: Final = 4_096
"""Bytes kept free in a packed message besides body and index: for its own properties, and for what `condemned` adds to one change."""

_COUNT, _INDEX = "pack", "pack_index"
_REASON, _DESCRIPTION = "dead_letter_reason", "dead_letter_description"
MARKS: Final = (_REASON, _DESCRIPTION)
"""Properties that only a message made by `condemned` has: sent again with them, it is dead-lettered again."""

_DESCRIPTION_BYTES: Final = 1_500
_SEPARATOR: Final = b",\n"
_PLAIN: Final = frozenset((str, int, bool))
"""Kinds of property values that survive JSON unchanged."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message to send and the changes in it: those of a pack, or a single one, whose own message it is."""

    message: Message
    changes: tuple[Message, ...]
    places: tuple[int, ...] = field(compare=False)
    """Where each of the changes stands in the sequence that was packed."""

    def halves(self) -> list[Parcel]:
        """The changes of a pack in two; each half is smaller than the whole, down to a message of one change."""
        middle = len(self.changes) // 2
        halves = (self.changes[:middle], self.places[:middle]), (self.changes[middle:], self.places[middle:])
        return [Parcel(_message(changes), changes, places) for changes, places in halves]


_Pack = tuple[Message, tuple[Message, ...]]
"""A message to send, and the changes in it."""


class BadPack(ValueError):
    """A packed message that cannot be taken apart; the text gives the reason."""


def packed(messages: Sequence[Message], *, most: int, limit: int) -> list[Parcel]:
    """`messages` with up to `most` changes of one session in each, in their order; `limit`: bytes of a message.

    The same messages and bounds give the same parcels. A change that does not go into a pack (see `_kind`) is sent as it is, in its
    place. Sessions keep the order of their first appearance.
    """
    sessions: dict[str | None, list[int]] = {}
    for at, message in enumerate(messages):
        sessions.setdefault(message.session_id, []).append(at)
    parcels = []
    for places in sessions.values():
        first = 0
        for message, changes in _of_session([messages[at] for at in places], most, limit - SPARE):
            parcels.append(Parcel(message, changes, tuple(places[first : first + len(changes)])))
            first += len(changes)
    return parcels


def is_pack(message: Message) -> bool:
    return message.content_type == PACK_TYPE


def unpack(message: Message) -> tuple[Message, ...]:
    """The changes of a packed message, each as it would have been sent alone. Raises BadPack.

    Any sender to the queue may send what looks like a pack, so the result is never larger than what `packed` makes.
    """
    if not is_pack(message):
        raise BadPack(f"the content type is {message.content_type!r}, not {PACK_TYPE}")
    count, text = _sized(message)
    try:
        index = json.loads(text)
        names = len(index["properties"])
        if names * count > MOST_CELLS:
            raise BadPack(f"{names} properties of {count} changes are more than {MOST_CELLS:,} values")
        ids = _values(index["ids"], count)
        subjects = _values(index["subjects"], count)
        columns = {name: _values(column, count) for name, column in index["properties"].items()}
    except BadPack:
        raise
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise BadPack(f"the property {_INDEX} cannot be read: {type(error).__name__}: {error}") from error
    _check("id", ids, (str,))
    _check("subject", subjects, (str, type(None)))
    for name, values in columns.items():
        _check(name, values, _PLAIN)
    if not all(ids):
        raise BadPack(f"{ids.count('')} of {count} changes have an empty id, by which no topic knows one from another")
    if len(set(ids)) != count:
        raise BadPack(f"{count} changes have {len(set(ids))} different ids")
    bodies = message.body[1:-1].split(_SEPARATOR)
    return tuple(
        Message(
            body=bodies[at],
            message_id=ids[at],
            session_id=message.session_id,
            subject=subjects[at],
            content_type=CHANGE_TYPE,
            application_properties={name: column[at] for name, column in columns.items()},
        )
        for at in range(count)
    )


def _sized(message: Message) -> tuple[int, str]:
    """Number of changes and index of a pack whose body has so many lines. Raises BadPack before anything is built."""
    count, text = (message.application_properties.get(name) for name in (_COUNT, _INDEX))
    if type(count) is not int or not isinstance(text, str):
        raise BadPack(f"the application properties {_COUNT} (a number) and {_INDEX} (text) are missing")
    if count > MOST:
        raise BadPack(f"the property {_COUNT} says {count:,} changes, and a pack holds up to {MOST}")
    if (length := len(text.encode(errors="surrogatepass"))) > INDEX_BYTES:
        raise BadPack(f"the property {_INDEX} has {length:,} bytes, and may have {INDEX_BYTES:,}")
    body = message.body
    if body[:1] != b"[" or body[-1:] != b"]":
        raise BadPack("the body is not a JSON array")
    lines = b"\n" + body[1:-1] + _SEPARATOR
    found, empty = lines.count(_SEPARATOR), b"\n" + _SEPARATOR in lines
    if found != count or empty:
        empties = ", with empty ones" if empty else ""
        raise BadPack(f"the body has {found} changes, one a line{empties}, and the property {_COUNT} says {count}")
    return count, text


def _check(what: str, values: Sequence[Any], kinds: Collection[type]) -> None:
    wrong = {type(value).__name__ for value in values} - {kind.__name__ for kind in kinds}
    if wrong:
        raise BadPack(f"the property {_INDEX} gives a {what} of type {', '.join(sorted(wrong))}")


def condemned(change: Message, *, reason: str, description: str) -> Message:
    """The message that takes a poison change out of its pack, back to the ingest queue, to be dead-lettered alone and for this reason.

    Same id, body and session: a copy that is sent after a crash is the queue's duplicate. The description is cut to 1,500 bytes.
    """
    marks = {_REASON: tellable(reason, MAX_REASON), _DESCRIPTION: tellable(description, _DESCRIPTION_BYTES)}
    return replace(change, application_properties={**change.application_properties, **marks})


def condemnation(message: Message) -> tuple[str, str] | None:
    """Reason and description of a message made by `condemned`; None for any other."""
    reason, description = (message.application_properties.get(name) for name in (_REASON, _DESCRIPTION))
    return (reason, description) if isinstance(reason, str) and isinstance(description, str) else None


def _kind(message: Message) -> tuple[str, ...] | None:
    """What all changes of a pack have in common: the names of their properties. None for a message that cannot be restored exactly."""
    properties = message.application_properties
    plain = (
        bool(message.message_id)
        and message.content_type == CHANGE_TYPE
        and (message.partition_key, message.correlation_id, message.reply_to, message.reply_to_session_id)
        == (None, None, None, None)
        and (message.to, message.time_to_live) == (None, None)
        and message.body != b""
        and b"\n" not in message.body
        and all(type(value) in _PLAIN for value in properties.values())
        and Property.OVERSIZE not in properties  # a stand-in is dead-lettered alone
        and Property.SET_ASIDE not in properties  # and so is a change that is set aside
    )
    return ("", *properties) if plain else None


def _of_session(messages: Sequence[Message], most: int, limit: int) -> Iterator[_Pack]:
    """Those of one session, in their order."""
    for kind, run in groupby(messages, _kind):
        held = list(run)
        yield from _packs(held, most, limit) if kind else ((each, (each,)) for each in held)


def _packs(run: Sequence[Message], most: int, limit: int) -> Iterator[_Pack]:
    held: list[Message] = []
    ids: set[str | None] = set()
    size = 1
    for message in run:
        length = len(message.body) + len(_SEPARATOR)
        if held and (len(held) == most or size + length > limit or message.message_id in ids):
            yield from _fitting(tuple(held), limit)
            held, ids, size = [], set(), 1
        held.append(message)
        ids.add(message.message_id)
        size += length
    yield from _fitting(tuple(held), limit)


def _fitting(changes: tuple[Message, ...], limit: int) -> Iterator[_Pack]:
    """One pack, or several when the index makes it too large or it has too many property values."""
    message = _message(changes)
    index = len(str(message.application_properties.get(_INDEX, "")).encode())
    cells = len(changes) * len(changes[0].application_properties)
    small = index <= INDEX_BYTES and cells <= MOST_CELLS
    if len(changes) == 1 or (small and len(message.body) + index <= limit):
        yield message, changes
        return
    middle = len(changes) // 2
    yield from _fitting(changes[:middle], limit)
    yield from _fitting(changes[middle:], limit)


def _message(changes: Sequence[Message]) -> Message:
    """A single change goes as it is. Several become a pack, whose id depends only on their ids."""
    first = changes[0]
    if len(changes) == 1:
        return first
    ids = [str(change.message_id) for change in changes]
    index = {
        "ids": _column(ids),
        "subjects": _column([change.subject for change in changes]),
        "properties": {
            name: _column([change.application_properties[name] for change in changes])
            for name in first.application_properties
        },
    }
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    properties: dict[str, PropertyValue] = {_COUNT: len(changes), _INDEX: text}
    return Message(
        body=b"[" + _SEPARATOR.join([change.body for change in changes]) + b"]",
        message_id="pack:" + hashlib.sha256("\n".join(ids).encode()).hexdigest(),
        session_id=first.session_id,
        content_type=PACK_TYPE,
        application_properties=properties,
    )


def _column(values: Sequence[Any]) -> Any:
    """One value when all are the same; otherwise {"each": [...]}, for texts without their common beginning, "prefix"."""
    first = values[0]
    if all(type(value) is type(first) and value == first for value in values):
        return first
    if not all(type(value) is str for value in values):
        return {"each": list(values)}
    least, most = min(values), max(values)  # what these two begin with, all others do
    length = next((at for at, (one, other) in enumerate(zip(least, most, strict=False)) if one != other), len(least))
    length = min(length, PREFIX)
    return {"prefix": first[:length], "each": [value[length:] for value in values]}


def _values(column: Any, count: int) -> list[Any]:
    """The inverse of `_column`. Raises ValueError, LookupError or TypeError for anything else."""
    if not isinstance(column, dict):
        return [column] * count
    each = column["each"]
    if type(each) is not list or len(each) != count:
        raise ValueError(f"a column does not have {count} values")
    if "prefix" not in column:
        return each
    if len(column["prefix"]) > PREFIX:
        raise ValueError(f"the values of a column begin with more than {PREFIX:,} common characters")
    return [column["prefix"] + value for value in each]
