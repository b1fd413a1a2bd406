"""A wait with a deadline that is none: up to Python 3.12 `SimpleQueue.get(timeout=...)` waits for ever after a signal whose handler takes longer
than the rest of the timeout (the rest is negative then, which means no limit). `queue.Queue` computes it rightly.
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
