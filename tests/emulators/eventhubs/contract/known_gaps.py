"""What the Event Hubs emulator knowingly does not imitate, each with its reason: the only place where that is written.

A key is the name of a test. A gap that has closed fails the run (XPASS), and so does a name that no test has.
"""

from __future__ import annotations

from collections.abc import Mapping

GAPS: Mapping[str, str] = {
    "test_old_events_are_gone": "events stay: nobody who tests here waits for the hour that retention lasts at least",
    "test_an_event_says_what_the_last_one_is": "the runtime metric of a partition is asked for by consumers alone, and no consumer here is DStream's",
}
