"""When little is left until cleanup overtakes a table."""

from __future__ import annotations

import pytest

from ingester.watch.retention import Alarm, alarm, headroom

DAY = 86_400.0


def test_what_is_left_is_the_retention_without_the_offsets_age() -> None:
    assert headroom(3 * DAY, DAY) == 2 * DAY
    assert headroom(3 * DAY, 4 * DAY) == -DAY


@pytest.mark.parametrize(
    ("former", "share", "now"),
    [
        (Alarm.NONE, 0.25, Alarm.NONE),
        (Alarm.NONE, 0.249, Alarm.LOW),
        (Alarm.NONE, 0.049, Alarm.LOWER),
        (Alarm.LOW, 0.05, Alarm.LOW),
        (Alarm.LOW, 0.04, Alarm.LOWER),
        (Alarm.LOWER, 0.0, Alarm.PASSED),
        (Alarm.LOWER, -2.0, Alarm.PASSED),
        (Alarm.LOW, 0.49, Alarm.LOW),
        (Alarm.LOW, 0.5, Alarm.NONE),
        (Alarm.PASSED, 0.1, Alarm.PASSED),
        (Alarm.PASSED, 0.9, Alarm.NONE),
    ],
)
def test_it_gets_worse_at_once_and_is_over_at_the_half(former: Alarm, share: float, now: Alarm) -> None:
    assert alarm(former, share * 3 * DAY, 3 * DAY) is now
