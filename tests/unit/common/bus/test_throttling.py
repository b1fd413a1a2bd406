"""A spell of throttling: told once when it begins and once when it is over, and waited for as long as credits take to come."""

from __future__ import annotations

from structlog.testing import capture_logs

from common.bus.throttling import QUIET, THROTTLED_BACKOFF, ThrottleLog


def test_a_spell_is_two_lines_however_often_the_namespace_refuses_and_accepts() -> None:
    now = [100.0]
    spell = ThrottleLog(lambda: now[0])
    with capture_logs() as lines:
        spell.look()
        for _ in range(50):
            spell.refused("the namespace is being throttled")
            spell.look()
            now[0] += QUIET / 2
        spell.refused("again", times=3)
        now[0] += QUIET
        spell.look()
        spell.look()
        spell.refused("another day")
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("Service Bus throttles", "warning"),
        ("Service Bus throttles no longer", "info"),
        ("Service Bus throttles", "warning"),
    ]
    assert (lines[1]["refused_sends"], lines[1]["seconds"]) == (53, 50 * QUIET / 2)


def test_waits_grow_from_half_a_second_to_the_two_that_the_service_asks_for_and_are_spread_evenly() -> None:
    assert [THROTTLED_BACKOFF.ceiling(attempt) for attempt in (1, 2, 3, 4, 50)] == [0.5, 1.0, 2.0, 2.0, 2.0]
    assert [THROTTLED_BACKOFF.delay(3, lambda share=share: share) for share in (0.0, 0.5, 0.75)] == [0.0, 1.0, 1.5]  # type: ignore[misc]
