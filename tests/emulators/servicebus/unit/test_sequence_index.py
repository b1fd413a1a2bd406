"""The index by sequence number: what is there comes in order, whatever came and went before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulators.servicebus.message import Message
from emulators.servicebus.store.sequence_index import SequenceIndex


def numbered(sequence: int) -> Message:
    message = Message(1)
    message.sequence = sequence
    return message


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 300)), max_size=400), st.integers(0, 300))
def test_what_is_there_comes_in_order(steps: list[tuple[bool, int]], start: int) -> None:
    index, here = SequenceIndex(), list[Message]()
    for comes, number in steps:
        if comes or not here:
            here.append(numbered(number))
            index.add(here[-1])
        else:
            index.remove(here.pop(number % len(here)))
    expected = sorted((m for m in here if m.sequence >= start), key=lambda m: m.sequence)
    assert list(index.since(start)) == expected


def test_numbers_of_messages_that_left_do_not_pile_up() -> None:
    index = SequenceIndex()
    for number in range(10_000):
        message = numbered(number)
        index.add(message)
        if number % 100:
            index.remove(message)
    assert [m.sequence for m in index.since(0)] == list(range(0, 10_000, 100))
    assert len(index._order) < 300


def test_a_message_that_is_not_there_cannot_leave() -> None:
    index = SequenceIndex()
    index.add(numbered(1))
    with pytest.raises(ValueError):
        index.remove(numbered(1))
    with pytest.raises(KeyError):
        index.remove(numbered(2))
