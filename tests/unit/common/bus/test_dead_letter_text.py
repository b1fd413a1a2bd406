"""Whatever text a message brings, its dead letter can be written, in a length that the service takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common.bus.dead_letter_text import tellable


@given(st.text(st.characters(), max_size=60), st.integers(4, 40))
def test_any_text_can_be_written_and_is_cut_in_bytes(text: str, longest: int) -> None:
    assert len(tellable(text, longest).encode()) <= longest


def test_what_utf_8_cannot_hold_is_told_by_its_escape() -> None:
    assert tellable("key \ud800 ä", 100) == "key \\ud800 ä"
    assert tellable("\U0001f600" * 2, 7) == "\U0001f600"
