"""A namespace whose frames arrive in pieces: messages that have arrived whole are handed over, and wait for nothing behind them."""

from __future__ import annotations

import time
from contextlib import closing

from common.message import Message
from common.servicebus import ServiceBus
from common.servicebus_receiver import RECEIVE_SLACK
from emulators.servicebus.description import QueueDescription
from emulators.servicebus.server import ServiceBusEmulator
from tests.faults.tcp_relay import Silence, TcpRelay, Way

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
