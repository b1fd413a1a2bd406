"""`python -m bench.outputs.kafka`: sending to Kafka beside librdkafka's own bare loop, with the same records in the same batches, on one broker.

Needs `make kafka`. Both have an idempotent producer, make the headers of each record, and wait for each batch of 200 messages. The bare loop counts
the reports that have no error, and looks at nothing else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer

from bench.outputs.compared import compared
from common.message import Message
from common.names import TableName
from router.outputs.kafka.output import KafkaOutput
from router.outputs.kafka.settings import KafkaOutputSettings
from router.outputs.port import Stream
from tests.outputs.contract.world import change, session
from tests.outputs.kafka.broker import Broker

_CHUNK, _CHUNKS, _ROUNDS = 200, 25, 15
_STREAM = Stream("server.shop.persons.events", TableName("dbo", "Persons"), "persons")


class _Bare:
    """The loop of librdkafka's documentation: produce each, flush each batch."""

    def __init__(self, address: str) -> None:
        self._producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})
        self._failed = 0

    def send(self, messages: Sequence[Message]) -> None:
        for begin in range(0, len(messages), _CHUNK):
            for message in messages[begin : begin + _CHUNK]:
                key = (message.session_id or "").encode()
                self._producer.produce(
                    _STREAM.destination, message.body, key, on_delivery=self._report, headers=_headers(message)
                )
            self._producer.flush()
        assert not self._failed

    def _report(self, error: object, message: object) -> None:
        self._failed += error is not None


def _headers(message: Message) -> list[tuple[str, bytes]]:
    """The same as the output's, for messages of this kind."""
    own = [
        ("message_id", message.message_id),
        ("content-type", message.content_type),
        ("session_id", message.session_id),
        ("subject", message.subject),
    ]
    return [(name, str(text).encode()) for name, text in (*own, *message.application_properties.items())]


def main() -> None:
    messages = [
        change(_STREAM, number, session(_STREAM, number // _CHUNK % 4), size=200) for number in range(_CHUNK * _CHUNKS)
    ]
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder), {})
        try:
            broker.start()
            broker.create(_STREAM.destination, partitions=4)
            output = KafkaOutput(KafkaOutputSettings(bootstrap_servers=[broker.own_address], tls=False))
            sender = output.sender(_STREAM)

            def send(messages: Sequence[Message]) -> None:
                for begin in range(0, len(messages), _CHUNK):
                    sender.send(messages[begin : begin + _CHUNK])

            ways = {"dstream": send, "librdkafka": _Bare(broker.own_address).send}
            compared("kafka", ways, lambda way, number: messages, rounds=_ROUNDS, bare="librdkafka")
            output.close()
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
