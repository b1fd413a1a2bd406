"""A change as a NATS message, what JetStream's answers mean, and signing in with an NKey."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from common.bus.ports import SendInterrupted
from common.errors import EntityUnavailable
from common.message import Message
from router.outputs.nats.answers import Conflict, Refused, acknowledged
from router.outputs.nats.messages import outgoing
from router.outputs.nats.nkey import of_credentials, of_seed, seed_of

ONE = Message(
    b"{}", "shop.dbo.P:1", session_id="s", application_properties={"table": "Wałęsa", "Nats-Rollup": "all", "a:\n": 1}
)

_SEED, _PUBLIC = (
    "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",
    "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4",
)


def test_headers_are_ascii_and_none_of_them_commands_the_server() -> None:
    message = outgoing(ONE, "dstream")
    assert message.headers == {
        "table": "Wa%C5%82%C4%99sa",
        "x-Nats-Rollup": "all",
        "a--": "1",
        "Content-Type": "application/json",
        "DStream-Session": "s",
        "Nats-Expected-Stream": "dstream",
        "Nats-Msg-Id": "shop.dbo.P:1",
    }


def test_a_chained_message_names_the_one_before() -> None:
    message = outgoing(ONE, "dstream")
    assert "Nats-Expected-Last-Msg-Id" not in message.after(None)
    assert message.after("before")["Nats-Expected-Last-Msg-Id"] == "before"
    block = "NATS/1.0\r\n" + "".join(f"{n}: {v}\r\n" for n, v in message.after("x" * len(message.id or "")).items())
    assert message.size == len(block + "\r\n") + len(ONE.body)


def test_a_message_of_another_sender_may_have_no_id() -> None:
    message = outgoing(replace(ONE, message_id=None), "dstream")
    assert message.id is None
    assert "Nats-Msg-Id" not in message.headers


def _error(code: int, err_code: int) -> bytes:
    return f'{{"error":{{"code":{code},"err_code":{err_code},"description":"words"}},"stream":"s","seq":0}}'.encode()


@pytest.mark.parametrize("data", [b'{"stream":"s","seq":1}', b'{"stream":"s","seq":1,"duplicate":true}'])
def test_stored_now_or_before_is_accepted(data: bytes) -> None:
    acknowledged(data, "sending")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (_error(400, 10070), Conflict),
        (_error(400, 10054), Refused),
        (_error(400, 10060), EntityUnavailable),
        (_error(503, 10039), EntityUnavailable),
        (_error(503, 10077), SendInterrupted),
        (_error(500, 10047), SendInterrupted),
        (_error(503, 10008), SendInterrupted),
        (_error(429, 10167), SendInterrupted),
        (_error(409, 10158), SendInterrupted),
        (_error(400, 1), EntityUnavailable),
        (b"OK", EntityUnavailable),
        (b"[]", EntityUnavailable),
        (b"{}", EntityUnavailable),
    ],
)
def test_every_other_answer_is_not(data: bytes, expected: type[Exception]) -> None:
    with pytest.raises(expected) as raised:
        acknowledged(data, "sending")
    assert getattr(raised.value, "throttled", False) is (b"10167" in data)


def test_a_full_stream_comes_with_what_to_do() -> None:
    with pytest.raises(SendInterrupted, match="make room"):
        acknowledged(_error(503, 10077), "sending")


def test_a_seed_signs_as_its_public_key_verifies() -> None:
    signer = of_seed(_SEED)
    assert signer.public == _PUBLIC
    key = Ed25519PublicKey.from_public_bytes(base64.b32decode(_PUBLIC)[1:33])
    key.verify(base64.b64decode(signer.sign("nonce")), b"nonce")
    assert _SEED not in repr(signer)


def test_a_credentials_file_has_both() -> None:
    text = (
        "-----BEGIN NATS USER JWT-----\neyJ0.abc\n------END NATS USER JWT------\n\n*** IMPORTANT ***\n"
        f"-----BEGIN USER NKEY SEED-----\n{_SEED}\n------END USER NKEY SEED------\n"
    )
    signer = of_credentials(text)
    assert (signer.jwt, signer.public) == ("eyJ0.abc", _PUBLIC)


@pytest.mark.parametrize("text", ["", "SU", _SEED[:-1] + "A", _PUBLIC, "SA" + _SEED[2:], "ü"])
def test_what_is_no_seed_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError) as raised:
        seed_of(text)
    assert len(text) < 3 or text not in str(raised.value)
    with pytest.raises(ValueError):
        of_credentials(text)
