"""How long the long forms are; and the SDK forgets sockets of connections that fail while they are opened, of which there are many here."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(autouse=True)
def forgotten_sockets() -> Iterator[None]:
    """They are collected here, where nobody minds, and not during another test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def kills() -> int:
    """Of each campaign's long form: DSTREAM_TEST_KILLS."""
    return int(os.environ.get("DSTREAM_TEST_KILLS", "100"))


@pytest.fixture
def seed() -> int:
    """Of each campaign's long form: DSTREAM_TEST_SEED. The same seed is the same campaign, as far as clocks allow."""
    return int(os.environ.get("DSTREAM_TEST_SEED", "2"))


@pytest.fixture
def pairs() -> int:
    """How many pairs of faults the long form plays: DSTREAM_TEST_PAIRS; 0: all there are."""
    return int(os.environ.get("DSTREAM_TEST_PAIRS", "0"))
