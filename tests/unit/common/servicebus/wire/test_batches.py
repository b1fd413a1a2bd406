"""What goes into one batch, and which deliveries one disposition may settle."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.message import Message
from common.servicebus.sender import by_session
from common.servicebus.settle import contiguous
from common.servicebus.wire.messages import to_sdk


@pytest.mark.parametrize(
    ("numbers", "runs"),
    [([], []), ([4], [(4, 4)]), ([4, 5, 6], [(4, 6)]), ([4, 6, 7], [(4, 4), (6, 7)]), ([7, 6], [(7, 7), (6, 6)])],
)
def test_a_run_holds_nothing_but_what_was_asked_for(numbers: list[int], runs: list[tuple[int, int]]) -> None:
    assert contiguous(numbers) == runs


@given(st.sets(st.integers(0, 60)))
def test_runs_hold_exactly_the_numbers_given(numbers: set[int]) -> None:
    runs = contiguous(sorted(numbers))
    assert [number for first, last in runs for number in range(first, last + 1)] == sorted(numbers)
    assert all(later[0] > earlier[1] + 1 for earlier, later in pairwise(runs))


@given(st.lists(st.sampled_from([None, "a", "b", "c"])))
def test_a_batch_holds_one_session_and_keeps_its_order(sessions: list[str | None]) -> None:
    messages = [Message(b"", str(number), session_id=session) for number, session in enumerate(sessions)]
    runs = [[messages[at] for at in run] for run in by_session(messages, range(len(messages)))]
    assert sorted((message for run in runs for message in run), key=messages.index) == messages
    assert len(runs) == len(set(sessions))
    for run in runs:
        assert run == [message for message in messages if message.session_id == run[0].session_id]


def test_a_partition_key_that_differs_from_the_session_gives_way() -> None:
    assert to_sdk(Message(b"", "m", session_id="s", partition_key="other")).partition_key in {None, "s"}
    assert to_sdk(Message(b"", "m", partition_key="p")).partition_key == "p"
