"""The contract of outputs over a real OpenSearch node."""

from __future__ import annotations

from tests.outputs.contract.cases import OutputContract
from tests.outputs.elasticsearch.world import SearchWorld


class TestContract(OutputContract):
    world_type = SearchWorld
