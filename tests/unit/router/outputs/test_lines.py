from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.message import Message, Opaque
from router.outputs.lines import Line, NotALine, line, plain_lines


def made(body: bytes, form: Line = "body") -> bytes:
    return line(Message(body, "id"), form)


def test_a_body_passes_as_its_bytes_are() -> None:
    body = '{"data":{"Amount":"12345678901234567890.123456789","N":12345678901234567890123456789.0,"Ö":"\\ud800"}}'.encode()

    assert made(body) == body + b"\n"


def test_a_line_never_ends_inside_of_a_message() -> None:
    body = b'{\r\n "a": [1,\n 2.50]\n}\n'

    text = made(body)

    assert text.count(b"\n") == 1
    assert b"\r" not in text
    assert b"2.50" in text
    assert json.loads(text) == json.loads(body)


_BODIES = st.lists(
    st.sampled_from(
        [
            '{"a":"Wałęsa"}'.encode(),
            b"{}",
            b'{"a":1}',
            b"{",
            b"}",
            b"",
            b"{\n}",
            b"{}\n{}",
            b"{\r}",
            b'{"\xc5',
            b'\x82"}',
            b"[]",
        ]
    ),
    max_size=4,
)


@given(bodies=_BODIES)
def test_bodies_that_are_looked_at_together_make_the_same_lines(bodies: list[bytes]) -> None:
    found = plain_lines([Message(body, "id") for body in bodies])
    if found is not None:
        assert found == [made(body) for body in bodies]
    elif bodies:
        assert any(body[:1] + body[-1:] != b"{}" or b"\n" in body or b"\r" in body for body in bodies)


def test_a_message_without_a_body_is_null() -> None:
    assert made(b"") == b"null\n"


@pytest.mark.parametrize(
    "body",
    [b"text", b"\xff\xfe", b'{"a": "\xff"}', b'{"a":\n1', b"NaN", b'["line\nend"]', b"[" * 100_000, b"\xef\xbb\xbf{}"],
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(NotALine):
        made(body)


def test_what_is_not_json_has_its_bytes_in_a_line_that_is_a_message() -> None:
    held = json.loads(made(b"\xff\n", "message"))

    assert "body" not in held
    assert base64.b64decode(held["body_base64"]) == b"\xff\n"


def test_a_message_has_its_id_session_and_properties() -> None:
    message = Message(
        b'{"n":1.10}',
        "db.dbo.T:1",
        session_id='s"1',
        subject="Insert",
        application_properties={
            "lsn": "00",
            "n": 1,
            "t": True,
            "b": b"\x00",
            "o": Opaque(b"\x01"),
            "f": float("inf"),
            "\ud800": "ö",
        },
    )

    text = line(message, "message")

    assert text.endswith(b',"body":{"n":1.10}}\n')
    held = json.loads(text)
    assert (held["id"], held["session"], held["subject"], held["content_type"]) == (
        "db.dbo.T:1",
        's"1',
        "Insert",
        "application/json",
    )
    assert held["properties"] == {"lsn": "00", "n": 1, "t": True, "b": "AA==", "o": "AQ==", "f": "inf", "\ud800": "ö"}


def test_a_message_without_a_session_says_null() -> None:
    assert json.loads(made(b"{}", "message"))["session"] is None
