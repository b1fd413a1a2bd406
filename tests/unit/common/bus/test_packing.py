"""A pack gives every change back as it was, whatever the changes are, and says so where it cannot."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.bus.packing import (
    INDEX_BYTES,
    MOST,
    PACK_TYPE,
    SPARE,
    BadPack,
    condemnation,
    condemned,
    is_pack,
    packed,
    unpack,
)
from common.message import Message

LIMIT = 260_000
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PROPERTIES: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"table": TEXTS}, optional={"lsn": TEXTS, "n": st.integers(), "yes": st.booleans()}),
    st.sampled_from([{"table": "t", "oversize": True}, {"real": 0.5}]),
)


@st.composite
def changes(draw: st.DrawFn) -> Message:
    return Message(
        json.dumps(draw(st.dictionaries(TEXTS, TEXTS, max_size=2)), ensure_ascii=False).encode(),
        draw(st.none() | TEXTS),
        session_id=draw(st.sampled_from([None, "a", "b"])),
        subject=draw(st.sampled_from([None, "insert", "update"])),
        content_type=draw(st.sampled_from(["application/json", "application/json", None])),
        partition_key=draw(st.sampled_from([None, None, None, "p"])),
        time_to_live=draw(st.sampled_from([None, None, None, timedelta(seconds=5)])),
        application_properties=draw(PROPERTIES),
    )


def change(number: int, size: int = 20) -> Message:
    body = b'{"n":%d,"x":"%s"}' % (number, b"x" * size)
    return Message(
        body, f"db.t:{number:08}", "s", "insert", application_properties={"table": "t", "lsn": f"{number:020}"}
    )


def unpacked(message: Message) -> tuple[Message, ...]:
    return unpack(message) if is_pack(message) else (message,)


def by_session(messages: Sequence[Message]) -> list[Message]:
    sessions = list(dict.fromkeys(message.session_id for message in messages))
    return sorted(messages, key=lambda message: sessions.index(message.session_id))


@given(st.lists(changes(), max_size=30), st.integers(1, 8), st.integers(SPARE, SPARE + 400))
def test_what_was_packed_comes_out_as_it_was_and_in_its_order(held: list[Message], most: int, limit: int) -> None:
    parcels = packed(held, most=most, limit=limit)
    out = [each for parcel in parcels for each in unpacked(parcel.message)]
    assert out == by_session(held)
    assert [list(each.application_properties.items()) for each in out] == [
        list(each.application_properties.items()) for each in by_session(held)
    ]
    assert [each for parcel in parcels for each in parcel.changes] == out
    for parcel in parcels:
        assert len(parcel.changes) <= most
        assert len({each.session_id for each in parcel.changes}) == 1
        assert len(parcel.changes) == 1 or len(parcel.message.body) <= limit - SPARE


def test_true_and_one_stay_what_they_are() -> None:
    held = [replace(change(n), application_properties={"p": value}) for n, value in enumerate((1, True, 0, False))]
    (parcel,) = packed(held, most=MOST, limit=LIMIT)
    assert [type(each.application_properties["p"]) for each in unpack(parcel.message)] == [int, bool, int, bool]


def test_the_body_is_a_json_array_of_the_changes_byte_for_byte() -> None:
    """The format that routers of other versions rely on."""
    (parcel,) = packed([change(1), change(2)], most=MOST, limit=LIMIT)
    assert parcel.message == Message(
        body=b'[{"n":1,"x":"xxxxxxxxxxxxxxxxxxxx"},\n{"n":2,"x":"xxxxxxxxxxxxxxxxxxxx"}]',
        message_id="pack:747f1e6fc1ac0657da39990c1e6df8de451da2768b0ea2cd4bff858e1e34794a",
        session_id="s",
        content_type="application/vnd.dstream.pack+json",
        application_properties={
            "pack": 2,
            "pack_index": '{"ids":{"prefix":"db.t:0000000","each":["1","2"]},"subjects":"insert",'
            '"properties":{"table":"t","lsn":{"prefix":"0000000000000000000","each":["1","2"]}}}',
        },
    )
    assert json.loads(parcel.message.body)[1]["n"] == 2


def test_the_pack_that_the_documentation_shows_is_one() -> None:
    page = (Path(__file__).parents[4] / "docs" / "decisions" / "0015-packing.md").read_text()
    body, index = re.findall(r"```json\n(.*?)\n```", page, re.DOTALL)
    shown = Message(
        body.encode(),
        None,
        session_id="s",
        content_type=PACK_TYPE,
        application_properties={"pack": 3, "pack_index": index},
    )
    changes = unpack(shown)
    assert [each.message_id for each in changes] == [
        "database.dbo.Persons:0000003600000b200003-1-0000003600000b200002-2",
        "database.dbo.Persons:0000003600000b200003-1-0000003600000b200003-2",
        "database.dbo.Persons:0000003600000c100005-1-0000003600000b200004-4",
    ]
    (made,) = packed(changes, most=MOST, limit=LIMIT)
    assert made.message.body == shown.body
    assert json.loads(str(made.message.application_properties["pack_index"])) == json.loads(index)


def test_a_packs_id_is_a_function_of_its_changes() -> None:
    def ids(first: int, last: int) -> list[str | None]:
        parcels = packed([change(n) for n in range(first, last)], most=4, limit=LIMIT)
        return [parcel.message.message_id for parcel in parcels]

    assert ids(0, 8) == ids(0, 8)
    assert ids(0, 10)[:2] == ids(0, 8)  # a page that ends later begins with the same packs
    assert not set(ids(0, 8)) & set(ids(1, 9))
    assert all(found and len(found) <= 128 for found in ids(0, 8))


def test_a_change_alone_is_sent_as_it_always_was() -> None:
    held = [change(n) for n in range(5)]
    assert packed(held, most=1, limit=LIMIT) == [*(packed([each], most=9, limit=LIMIT)[0] for each in held)]
    last = packed(held, most=2, limit=LIMIT)[-1]
    assert last.message is held[-1]


@pytest.mark.parametrize(
    "odd",
    [
        replace(change(2), body=b'{\n"n": 2}'),
        replace(change(2), body=b""),
        replace(change(2), message_id=None),
        replace(change(2), message_id=""),
        replace(change(2), content_type="text/plain"),
        replace(change(2), correlation_id="c"),
        replace(change(2), application_properties={"table": "t", "oversize": True}),
        replace(change(2), application_properties={"table": "t", "set_aside": "the filter fails"}),
        replace(change(2), application_properties={"octets": b"x"}),
        replace(change(2), application_properties={"real": float("nan")}),
    ],
)
def test_what_could_not_be_given_back_exactly_goes_alone_and_in_its_place(odd: Message) -> None:
    parcels = packed([change(0), change(1), odd, change(3), change(4)], most=MOST, limit=LIMIT)
    assert [len(parcel.changes) for parcel in parcels] == [2, 1, 2]
    assert parcels[1].message is odd


def test_a_pack_stays_within_a_message_and_its_index_within_a_property() -> None:
    large = packed([change(n, 9_000) for n in range(100)], most=MOST, limit=LIMIT)
    assert [len(parcel.changes) for parcel in large] == [28, 28, 28, 16]
    names = [replace(change(n), message_id=f"{n}" * 30) for n in range(MOST)]
    for parcel in packed(names, most=MOST, limit=10_000_000):
        index = parcel.message.application_properties["pack_index"]
        assert isinstance(index, str)
        assert len(index.encode()) <= INDEX_BYTES


def test_a_change_larger_than_a_message_goes_alone_to_be_refused_by_name() -> None:
    big = change(1, LIMIT)
    parcels = packed([change(0), big, change(2)], most=MOST, limit=LIMIT)
    assert [parcel.message for parcel in parcels] == [change(0), big, change(2)]


def test_a_pack_halves_down_to_its_changes() -> None:
    (parcel,) = packed([change(n) for n in range(3)], most=MOST, limit=LIMIT)
    first, rest = parcel.halves()
    assert first.message == change(0)
    assert [half.message for half in rest.halves()] == [change(1), change(2)]


def spoilt(**changed: Any) -> Message:
    (parcel,) = packed([change(0), change(1)], most=MOST, limit=LIMIT)
    return replace(parcel.message, **changed)


def index(text: str) -> dict[str, Any]:
    return {"application_properties": {"pack": 2, "pack_index": text}}


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (change(0), "content type"),
        (spoilt(application_properties={}), "missing"),
        (spoilt(application_properties={"pack": True, "pack_index": "{}"}), "missing"),
        (spoilt(body=b"{}"), "not a JSON array"),
        (spoilt(body=b""), "not a JSON array"),
        (spoilt(body=b"[{}]"), "1 changes"),
        (spoilt(body=b"[{},\n]"), "2 changes"),
        (spoilt(**index("{")), "JSONDecodeError"),
        (spoilt(**index("[" * 29_000)), "cannot be read"),
        (spoilt(**index("[]")), "TypeError"),
        (spoilt(**index('{"ids":{"each":["a"]},"subjects":null,"properties":{}}')), "does not have 2 values"),
        (spoilt(**index('{"ids":null,"subjects":null,"properties":{}}')), "id of type NoneType"),
        (spoilt(**index('{"ids":"","subjects":null,"properties":{}}')), "2 of 2 changes have an empty id"),
        (
            spoilt(**index('{"ids":{"each":["a",""]},"subjects":null,"properties":{}}')),
            "1 of 2 changes have an empty id",
        ),
        (spoilt(**index('{"ids":{"each":["a",1]},"subjects":null,"properties":{}}')), "id of type int"),
        (spoilt(**index('{"ids":{"prefix":"a","each":["a",1]},"subjects":null,"properties":{}}')), "TypeError"),
        (spoilt(**index('{"ids":"a","subjects":1,"properties":{}}')), "subject of type int"),
        (spoilt(**index('{"ids":"a","subjects":null,"properties":{"p":{"each":[1,{}]}}}')), "p of type dict"),
        (spoilt(**index('{"ids":"a","subjects":null,"properties":[]}')), "AttributeError"),
    ],
)
def test_a_pack_that_contradicts_itself_is_a_named_fault(message: Message, why: str) -> None:
    with pytest.raises(BadPack, match=why):
        unpack(message)


@given(st.binary(max_size=40), st.text(max_size=60), st.integers())
def test_whatever_calls_itself_a_pack_is_read_or_refused(body: bytes, text: str, count: int) -> None:
    message = Message(body, "m", content_type=PACK_TYPE, application_properties={"pack": count, "pack_index": text})
    with suppress(BadPack):
        assert len(unpack(message)) == count


def test_a_condemned_change_says_why_and_is_otherwise_itself() -> None:
    sent = condemned(change(1), reason="UnknownDestination", description="ä" * 2_000)
    assert condemnation(sent) == ("UnknownDestination", "ä" * 750)
    assert (sent.message_id, sent.body, sent.session_id, sent.subject) == (
        "db.t:00000001",
        change(1).body,
        "s",
        "insert",
    )
    assert sent.application_properties.items() >= change(1).application_properties.items()
    assert condemnation(change(1)) is None


def bomb(count: int, index: dict[str, Any]) -> Message:
    """Small to send, and as large to take apart as it says."""
    text = json.dumps(index, separators=(",", ":"))
    body = b"[" + b",\n".join([b"1"] * count) + b"]"
    properties: dict[str, Any] = {"pack": count, "pack_index": text}
    return Message(body, "p", "s", content_type=PACK_TYPE, application_properties=properties)


def numbered(count: int) -> dict[str, list[str]]:
    return {"each": [f"{n:x}" for n in range(count)]}


BOMBS = {
    "more changes": (bomb(MOST + 1, {"ids": numbered(MOST + 1), "subjects": None, "properties": {}}), "up to 500"),
    "long index": (
        bomb(2, {"ids": numbered(2), "subjects": "x" * INDEX_BYTES, "properties": {}}),
        "may have 30,000",
    ),
    "many values": (
        bomb(MOST, {"ids": numbered(MOST), "subjects": None, "properties": {f"{n:x}": 1 for n in range(3_000)}}),
        "3000 properties of 500 changes",
    ),
    "long beginning": (
        bomb(2, {"ids": {"prefix": "x" * 20_000, "each": ["a", "b"]}, "subjects": None, "properties": {}}),
        "common characters",
    ),
    "one id for all": (bomb(3, {"ids": "x", "subjects": None, "properties": {}}), "3 changes have 1 different ids"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_pack_that_no_ingester_makes_is_refused_before_it_is_taken_apart(name: str) -> None:
    message, words = BOMBS[name]
    with pytest.raises(BadPack, match=words):
        unpack(message)


def test_the_largest_packs_that_are_made_can_be_taken_apart() -> None:
    few = [replace(change(n), application_properties={f"{p}": 1 for p in range(131)}) for n in range(MOST)]
    many = [replace(change(n), application_properties={f"{p:x}": 1 for p in range(3_000)}) for n in range(25)]
    long = [
        replace(
            change(n), message_id="i" * 100 + f"{n:028}", subject="s" * 128, application_properties={"t": "ü" * 2_000}
        )
        for n in range(MOST)
    ]
    alike = [replace(change(n), application_properties={"t": "x" * 5_000 + str(n)}) for n in range(8)]
    same = [replace(change(n), message_id=f"{n % 3}") for n in range(MOST)]
    for held in (few, many, long, alike, same):
        parcels = packed(held, most=MOST, limit=1_000_000)
        assert [each for parcel in parcels for each in unpacked(parcel.message)] == held
    assert [len(parcel.changes) for parcel in packed(few, most=MOST, limit=1_000_000)] == [MOST]
    assert max(len(parcel.changes) for parcel in packed(many, most=MOST, limit=1_000_000)) * 3_000 <= 65_536
