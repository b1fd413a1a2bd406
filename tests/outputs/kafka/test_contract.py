"""The contract of outputs, over a real broker."""

from __future__ import annotations

from tests.outputs.contract.cases import OutputContract
from tests.outputs.kafka.world import KafkaWorld


class TestKafka(OutputContract):
    world_type = KafkaWorld
