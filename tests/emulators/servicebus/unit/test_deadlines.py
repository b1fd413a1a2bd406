"""Deadlines: whatever is set, moved and taken back, the next one is the earliest, and old entries do not pile up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulators.servicebus.store.deadlines import NEVER, Deadlines

STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "advance", "discard", "take"]), st.integers(0, 5), st.integers(0, 20)),
    max_size=60,
)


@given(STEPS)
def test_deadlines_are_those_of_a_plain_dict(steps: list[tuple[str, int, int]]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    expected: dict[int, int] = {}
    for step, key, at in steps:
        if step == "set":
            deadlines.set(key, at)
            expected[key] = at
        elif step == "advance":
            deadlines.advance(key, at)
            expected[key] = min(at, expected.get(key, NEVER))
        elif step == "discard":
            deadlines.discard(key)
            expected.pop(key, None)
        else:
            taken = deadlines.take(at)
            assert sorted(taken) == sorted(key for key, due in expected.items() if due <= at)
            assert [expected[key] for key in taken] == sorted(expected[key] for key in taken)
            for key in taken:
                del expected[key]
        assert deadlines.next == min(expected.values(), default=NEVER)
        assert len(deadlines) == len(expected)


def test_a_deadline_that_is_moved_again_and_again_takes_no_more_room() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for at in range(10_000):
        deadlines.set("lock", at)
    assert len(deadlines._heap) < 100
