"""Where a client finds the token of a lock: in the delivery's tag, and as a UUID among the delivery annotations."""

from __future__ import annotations

from uuid import UUID

from azure.servicebus._pyamqp._decode import decode_payload

from emulators.servicebus.message import render

from .test_store import message

TOKEN = UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")


def test_a_locked_message_carries_its_token_in_the_order_of_the_standard() -> None:
    found = decode_payload(memoryview(render(message(), 1, TOKEN.bytes_le)))
    assert found.delivery_annotations == {b"x-opt-lock-token": TOKEN}


def test_a_message_without_a_lock_carries_none() -> None:
    assert decode_payload(memoryview(render(message()))).delivery_annotations is None
