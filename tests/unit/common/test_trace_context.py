"""W3C Trace Context: what is one and what is not."""

from __future__ import annotations

import pytest

from common.observability.trace_context import held, traceparent

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("text", [GIVEN, f"  {GIVEN}   ", "cc" + GIVEN[2:], "01" + GIVEN[2:] + "-more"])
def test_a_traceparent_is_taken_without_the_blanks_of_its_column(text: str) -> None:
    assert traceparent(text) == text.strip()


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        b"00",
        "",
        "Jana",
        GIVEN.upper(),
        GIVEN[:-1],
        GIVEN + "-more",
        "ff" + GIVEN[2:],
        "00-" + "0" * 32 + GIVEN[35:],
        GIVEN[:36] + "0" * 16 + "-01",
        "01" + GIVEN[2:] + "-" + "x" * 200,
        GIVEN + "\n" + GIVEN,
        "0٠" + GIVEN[2:],
        "01" + GIVEN[2:] + "-\x07",
        "01" + GIVEN[2:] + "-a\x1b[2J",
        "01" + GIVEN[2:] + "-MORE",
    ],
)
def test_anything_else_is_none(value: object) -> None:
    assert traceparent(value) is None


def test_the_context_of_a_message_is_what_its_sender_wrote() -> None:
    assert held({"traceparent": GIVEN, "tracestate": "a=b", "table": "x"}) == {
        "traceparent": GIVEN,
        "tracestate": "a=b",
    }
    assert held({"traceparent": 7, "tracestate": ""}) == {}


@pytest.mark.parametrize("given", ["Jana", GIVEN + "\r\nX: y", "01" + GIVEN[2:] + "-\x07", "ff" + GIVEN[2:]])
def test_what_is_no_context_is_nobodys_and_its_state_goes_with_it(given: str) -> None:
    assert held({"traceparent": given, "tracestate": "a=b"}) == {}


@pytest.mark.parametrize("state", ["a=b\r\nX: y", "a=\x00", "a=ž", "a=" + "x" * 520, 7])
def test_a_state_that_fits_no_header_is_left_out(state: object) -> None:
    assert held({"traceparent": GIVEN, "tracestate": state}) == {"traceparent": GIVEN}
