"""The time that a slice gets as it begins: its table's lease, if that is still the one it was made for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from common.clock import UnixTime
from ingester.driver.ownership import Ownership
from ingester.locks import Lease
from ingester.slices import Slice
from ingester.sqlserver.position import LogPosition
from tests.fakes.ingester import PERSONS, instance, lsn

TODO = Slice(PERSONS, instance(), LogPosition.before(lsn(1)), LogPosition.end_of(lsn(1)), epoch=7, rows=2, seconds=1)


@pytest.mark.parametrize(("epoch", "seconds"), [(7, 30.0), (8, 0.0), (None, 0.0)])
def test_a_slice_that_waited_while_its_lock_was_lost_or_taken_again_gets_no_time(
    epoch: int | None, seconds: float
) -> None:
    leases: Any = SimpleNamespace(seconds_left=lambda lease: 30.0)
    table: Any = SimpleNamespace(lease=None if epoch is None else Lease("persons", "this", epoch))
    given = Ownership(leases, leases, {PERSONS: "persons"}).stamped(TODO, table, UnixTime(100.0))
    assert (given.lease_seconds, given.send_before) == (seconds, 100.0 + seconds)
