"""A signal that ends an emulator, at whatever moment of its main thread it comes."""

from __future__ import annotations

import signal
import threading

import pytest

from emulators.stopping import stopped_by_signals, wait_for


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_while_the_event_is_looked_at_stops_it(number: signal.Signals) -> None:
    """Whoever looks at an event holds its lock for a moment, and a handler that wanted it then would never return."""
    stop, before = threading.Event(), signal.getsignal(number)
    with stopped_by_signals(stop):
        with stop._cond:  # type: ignore[attr-defined]  # as a wait does, for some microseconds
            signal.raise_signal(number)
        wait_for(stop)
    assert signal.getsignal(number) is before
