"""A line in the log while a start waits long for another machine. It ends no wait: each step has a deadline of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from itertools import repeat as endless
from typing import Final

import structlog

from common.clock import steady
from common.periodic import repeat

FIRST: Final = 10.0
"""Seconds until the first line. What is well has answered by then."""
AGAIN: Final = 30.0
"""Seconds from one line to the next."""

log = structlog.get_logger(__name__)


@contextmanager
def told_while_unanswered(peer: str, *, hint: str, first: float = FIRST, again: float = AGAIN) -> Iterator[None]:
    """While its context is open, warns after `first` seconds and then each `again`. `peer`: what is asked. `hint`: what a person can check."""
    over, begun = threading.Event(), steady()
    pauses = chain([first], endless(again))

    def tell() -> None:
        log.warning("start is still waiting", peer=peer, seconds=round(steady() - begun), hint=hint)

    telling = partial(repeat, tell, "an answer at the start", over, every=partial(next, pauses))
    threading.Thread(target=telling, name="unanswered", daemon=True).start()
    try:
        yield
    finally:
        over.set()
