"""The contract of outputs in Azurite."""

from __future__ import annotations

from tests.outputs.contract.cases import OutputContract
from tests.outputs.file.worlds import BlobWorld


class TestBlobs(OutputContract):
    world_type = BlobWorld
