"""What `dstream snapshot` says of ingesters is what they do."""

from __future__ import annotations

from dstream.rendering import snapshots as rendering
from ingester.driver.history import snapshots as driver


def test_how_soon_a_snapshot_begins_is_how_often_an_ingester_looks() -> None:
    assert driver.LOOK_SECONDS == rendering.LOOK_SECONDS
