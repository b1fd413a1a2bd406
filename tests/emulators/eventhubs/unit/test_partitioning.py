"""The hash of a partition key is the one of Microsoft's clients."""

from __future__ import annotations

from typing import Any

from azure.eventhub._buffered_producer import _partition_resolver
from hypothesis import given
from hypothesis import strategies as st

from emulators.eventhubs.partitioning import _hash, partition_of


@given(st.text(st.characters(codec="ascii"), min_size=1, max_size=128))
def test_the_hash_is_that_of_the_clients(key: str) -> None:
    yardstick: Any = _partition_resolver
    signed = yardstick.generate_hash_code(key)
    assert _hash(key.encode()) == signed & 0xFFFF


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=128), st.integers(1, 1024))
def test_every_key_has_a_partition(key: str, count: int) -> None:
    assert 0 <= partition_of(key, count) < count


def test_keys_spread_over_partitions() -> None:
    assert {partition_of(f"server.shop.persons.events#{number}", 32) for number in range(1000)} == set(range(32))
