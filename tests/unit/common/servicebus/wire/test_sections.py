"""The data of a batch, written at once: the octets that the SDK writes section by section, and nothing changed of what it does not know."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._pyamqp.message import BatchMessage, Message, Properties

from common.servicebus.wire.sections import sections, write_at_once

DATA = [b"", b"x", b"x" * 255, b"x" * 256, b"x" * 70_000]


class Session:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.busy = False

    def _outgoing_transfer(self, delivery: Any, trace: object) -> None:
        if self.busy:
            raise OSError("broken")
        self.sent.append(bytes(delivery.frame["payload"]))


class Link:
    def __init__(self, session: Session) -> None:
        self._session = session

    def _outgoing_transfer(self, delivery: Any) -> bool:
        """As the SDK's."""
        output = bytearray()
        encode_payload(output, delivery.message)
        delivery.frame = {"code": delivery.message._code, "payload": output}
        self._session._outgoing_transfer(delivery, None)
        return True


def batch(**fields: Any) -> Any:
    return BatchMessage(**{"data": list(DATA), "properties": Properties(message_id="id", group_id="s"), **fields})


def octets(message: Any) -> bytes:
    output = bytearray()
    encode_payload(output, message)
    return bytes(output)


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def link(session: Session) -> Link:
    link = Link(session)
    write_at_once(SimpleNamespace(_link=link))
    assert "_outgoing_transfer" in vars(link)
    return link


@pytest.mark.parametrize(
    "message",
    [
        batch(),
        batch(properties=None),
        batch(message_annotations={b"x-opt-partition-key": "s"}),
        batch(data=None),
        batch(footer={"f": 1}),
        batch(delivery_annotations={"d": 1}),
        Message(data=[b"alone"]),
        Message(value="no data"),
    ],
)
def test_the_octets_are_those_of_the_sdk(message: Any, link: Link, session: Session) -> None:
    delivery = SimpleNamespace(message=message)
    assert link._outgoing_transfer(delivery)
    assert session.sent == [octets(message)]
    assert delivery.frame["code"] == message._code
    assert delivery.message is message


def test_a_transfer_that_fails_leaves_all_as_it_was(link: Link, session: Session) -> None:
    delivery = SimpleNamespace(message=batch())
    session.busy = True
    with pytest.raises(OSError, match="broken"):
        link._outgoing_transfer(delivery)
    session.busy = False
    link._outgoing_transfer(delivery)
    assert session.sent == [octets(batch())]


@pytest.mark.parametrize("handler", [SimpleNamespace(), SimpleNamespace(_link=None), SimpleNamespace(_link=object())])
def test_an_sdk_that_is_built_otherwise_is_left_alone(handler: SimpleNamespace) -> None:
    before = dict(vars(handler))
    write_at_once(handler)
    assert vars(handler) == before


def test_sections_are_of_both_sizes() -> None:
    assert sections([b"ab", b"c" * 256]) == b"\x00\x53\x75\xa0\x02ab" + b"\x00\x53\x75\xb0\x00\x00\x01\x00" + b"c" * 256
