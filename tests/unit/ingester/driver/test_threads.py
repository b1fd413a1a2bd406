"""Threads that wait: one that hangs holds up nobody, and one that has ended is used again."""

from __future__ import annotations

import threading
from functools import partial

from ingester.driver.threads import Threads


def test_a_thread_is_used_again_and_a_hung_one_is_not_waited_for() -> None:
    threads, hung, ran = Threads("test"), threading.Event(), threading.Semaphore(0)
    seen: set[int] = set()

    def work() -> None:
        seen.add(threading.get_ident())
        ran.release()

    threads.run(partial(_wait, hung))
    for _ in range(20):
        threads.run(work)
        assert ran.acquire(timeout=60)
    assert 1 <= len(seen) <= 20
    threads.close()
    hung.set()


def _wait(hung: threading.Event) -> None:
    hung.wait(60)
