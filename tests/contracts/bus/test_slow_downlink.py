"""A namespace whose frames arrive in pieces or make no sense: messages that have arrived whole are handed over, and wait for nothing behind them."""

from __future__ import annotations

import time
from contextlib import closing
from io import BytesIO
from typing import Any

import pytest

from common.errors import TransientError
from common.message import Message
from common.servicebus.namespace import ServiceBus
from common.servicebus.receiver import RECEIVE_SLACK, BusReceiver
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.server import ServiceBusEmulator
from tests.worlds.tcp_relay import Silence, TcpRelay, Way

LARGE = 50_000


def test_a_frame_that_is_cut_short_does_not_hold_up_the_message_before_it() -> None:
    with ServiceBusEmulator() as emulator, TcpRelay(emulator.port) as relay:
        emulator.admin.create("lanes", QueueDescription(requires_session=True))
        behind = emulator.connection_string.replace(f":{emulator.port};", f":{relay.port};")
        with (
            closing(ServiceBus.from_connection_string(emulator.connection_string)) as there,
            closing(ServiceBus.from_connection_string(behind)) as bus,
            closing(there.sender("lanes")) as sender,
        ):
            sender.send([Message(b"{}", "first", "s")])
            receiver = bus.receivers("lanes", sessions=True, prefetch=200).open(max_wait=10)
            assert receiver is not None
            with closing(receiver):
                assert [each.message.message_id for each in receiver.receive(max_count=200, max_wait=10)] == ["first"]
                relay.mute(Silence(Way.BACK, after=LARGE + LARGE // 2))
                sender.send([Message(b"x" * LARGE, each, "s") for each in ("second", "third")])
                began = time.monotonic()
                found = receiver.receive(max_count=200, max_wait=10)
                assert [each.message.message_id for each in found] == ["second"]
                assert time.monotonic() - began < RECEIVE_SLACK


def test_a_receiver_that_the_sdk_has_closed_says_so_at_once() -> None:
    """After a frame that it cannot place it reads no more, and does not wait either."""
    with ServiceBusEmulator() as emulator:
        emulator.admin.create("plain", QueueDescription())
        with closing(ServiceBus.from_connection_string(emulator.connection_string)) as bus:
            receiver = bus.receivers("plain", sessions=False, prefetch=200).open(max_wait=10)
            assert isinstance(receiver, BusReceiver)
            with closing(receiver):
                handler: Any = receiver._receiver._handler
                handler._connection._transport._read_buffer = BytesIO(b"\x00\x00\x00\x08\x02\x01\x00\x00")
                with pytest.raises(TransientError, match="stopped reading"):
                    receiver.receive(max_count=200, max_wait=10)
