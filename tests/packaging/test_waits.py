"""Waits that may never end.

Up to Python 3.12 `SimpleQueue.get(timeout=...)` waits for ever after a signal whose handler takes longer than the rest of the timeout: the rest is
negative then, and means no limit. `queue.Queue` computes it rightly.
"""

from __future__ import annotations

import re

from tests.packaging.test_limits import ROOT, modules

_SIMPLE, _BOUNDED = re.compile(r"\bSimpleQueue[\[(]"), re.compile(r"\.get\((True|block=|timeout=)")


def test_no_module_waits_for_a_simple_queue_with_a_deadline() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in modules()}
    assert any(_SIMPLE.search(text) for text in texts.values())
    assert any(_BOUNDED.search(text) for text in texts.values())
    assert [name for name, text in texts.items() if _SIMPLE.search(text) and _BOUNDED.search(text)] == []


_ENDLESS = re.compile(r"(?<!await )\bstop(ped|ping)?\.wait\(\)")
_IN_A_THREAD = {"dstream/signals.py"}
"""Its thread is not the main one."""


def test_nothing_waits_without_an_end_for_what_a_signal_sets() -> None:
    """Python runs a signal's handler between two steps of the main thread. A signal that comes after the last look and before the system call
    interrupts nothing: its handler runs when the wait ends. Seen once in 1,000 stops right after another signal.
    """
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in modules()}
    assert {name for name, text in texts.items() if _ENDLESS.search(text)} == _IN_A_THREAD
