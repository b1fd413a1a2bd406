"""The contract of outputs in a directory, with processes that are killed while they write."""

from __future__ import annotations

from tests.outputs.contract.cases import OutputContract
from tests.outputs.file.worlds import LocalWorld


class TestLocalFiles(OutputContract):
    world_type = LocalWorld
