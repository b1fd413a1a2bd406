"""Keys, values and headers of records, for every envelope."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from common.bus.settings import EnvelopedOutputSettings, EnvelopeName
from common.message import Message, Opaque, PropertyValue
from router.envelopes.port import NotNative
from router.envelopes.registry import converter_of
from router.outputs.kafka.records import ByRow, by_session, record
from router.outputs.rows.keys import NoSuchColumn
from tests.unit.router.envelopes.golden import native

ENVELOPES = [(name, mode) for name in get_args(EnvelopeName) for mode in ("structured", "binary")]


def written(name: str, envelope: EnvelopeName, mode: str) -> list[Message]:
    """A message of the queue as its topic gets it."""
    settings = EnvelopedOutputSettings(type="kafka", envelope=envelope, cloudevents_mode=mode, tombstones=True)  # type: ignore[arg-type]
    converter = converter_of(settings)
    message = native(name)
    return [message] if converter is None else list(converter.converted(message))


def keys(messages: list[Message], columns: list[str], envelope: EnvelopeName, mode: str) -> list[bytes | None]:
    key_of = ByRow(columns, envelope, wrapped=mode == "structured")
    return [key_of(each, messages[at - 1] if at else None) for at, each in enumerate(messages)]


@pytest.mark.parametrize(("envelope", "mode"), ENVELOPES)
@pytest.mark.parametrize(
    ("name", "columns", "key"),
    [
        ("insert", ["ID"], b'{"ID":180}'),
        ("update_with_before", ["ID"], b'{"ID":180}'),
        ("read", ["ID", "LastName"], b'{"ID":180,"LastName":"Prince"}'),
        ("delete_in_another_schema", ["Order Id"], b'{"Order Id":7}'),
    ],
)
def test_the_key_of_a_row_is_the_same_in_every_envelope(
    envelope: EnvelopeName, mode: str, name: str, columns: list[str], key: bytes
) -> None:
    found = written(name, envelope, mode)
    assert set(keys(found, columns, envelope, mode)) == {key}
    assert len(found) == (2 if envelope == "debezium" and name.startswith("delete") else 1)


@pytest.mark.parametrize(("envelope", "mode"), ENVELOPES)
@pytest.mark.parametrize("name", ["gap", "transaction_end"])
def test_what_is_about_no_row_has_the_session_as_key(envelope: EnvelopeName, mode: str, name: str) -> None:
    (message,) = written(name, envelope, mode)
    assert keys([message], ["ID"], envelope, mode) == [(message.session_id or "").encode()]


def test_a_tombstone_has_no_value_and_the_key_of_its_delete() -> None:
    deleted, tombstone = written("delete_in_another_schema", "debezium", "structured")
    key_of = ByRow(["Order Id"], "debezium", wrapped=False)
    assert key_of(tombstone, deleted) == key_of(deleted, None) == b'{"Order Id":7}'
    assert record(tombstone, b"k").value is None
    assert record(deleted, b"k").value == deleted.body
    with pytest.raises(NotNative):
        key_of(tombstone, None)


def test_values_of_keys_stay_as_they_are_written() -> None:
    body = b'{"data": {"A": 1.50, "B": "Wa\\u0142\\"sa", "C": null, "D": true, "E": 123456789012345678901}}'
    key_of = ByRow(["E", "D", "C", "B", "A"], "dstream", wrapped=False)
    assert key_of(Message(body, "id"), None) == (
        b'{"E":123456789012345678901,"D":true,"C":null,"B":"Wa\xc5\x82\\"sa","A":1.50}'
    )


def test_a_row_without_its_key_and_a_body_without_a_row_are_errors() -> None:
    key_of = ByRow(["Nummer"], "dstream", wrapped=False)
    with pytest.raises(NoSuchColumn, match="Nummer"):
        key_of(native("insert"), None)
    for body in (b"[]", b"{", b'{"data": 1}', b"\xff"):
        with pytest.raises(NotNative):
            key_of(Message(body, "id"), None)


def test_the_session_is_the_key_and_without_one_there_is_none() -> None:
    assert by_session(Message(b"", "id", session_id="topic#17"), None) == b"topic#17"
    assert by_session(Message(b"", "id"), None) is None


def test_headers() -> None:
    properties: dict[str, PropertyValue] = {
        "table": "Wałęsa",
        "n": 1,
        "yes": True,
        "raw": b"\x00",
        "odd": Opaque(b"\x80"),
        "cloudEvents:id": "e",
    }
    message = Message(b"{}", "id-1", session_id="s", subject="Insert", application_properties=properties)
    assert record(message, None).headers == [
        ("message_id", b"id-1"),
        ("content-type", b"application/json"),
        ("session_id", b"s"),
        ("subject", b"Insert"),
        ("table", "Wałęsa".encode()),
        ("n", b"1"),
        ("yes", b"true"),
        ("raw", b"\x00"),
        ("odd", b"\x80"),
        ("ce_id", b"e"),
    ]
    with pytest.raises(ValueError, match="surrogates"):
        record(replace(message, subject="\ud800"), None)


def test_headers_and_sizes_are_the_same_whether_or_not_all_values_are_plain_text() -> None:
    properties: dict[str, PropertyValue] = {"table": "Orders", "cloudEvents:id": "e", "lsn": "00"}
    plain = Message(b"{}", "id-1", session_id="s", subject="Insert", application_properties=properties)
    usual, odd = record(plain, b"key"), record(replace(plain, reply_to="x"), b"key")
    assert [(name, text.encode()) for name, text in usual.headers if isinstance(text, str)] == odd.headers[:-1]
    assert odd.headers[-1] == ("reply_to", b"x")
    assert usual.least + len("reply_tox") == odd.least
    absent = record(replace(plain, session_id=None), b"key")
    assert [name for name, _ in absent.headers] == ["message_id", "content-type", "subject", "table", "ce_id", "lsn"]


def test_a_name_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        record(Message(b"{}", "id", session_id="s", subject="s", application_properties={"\ud800": "x"}), None)


def test_the_size_of_a_record_lies_between_its_bounds() -> None:
    made = record(Message(b"x" * 100, "id", application_properties={"a": "bc"}), b"key")
    assert made.least == 3 + 100 + len("message_idid") + len("content-typeapplication/json") + 3
    assert made.most > made.least + 60
