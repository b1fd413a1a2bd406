"""A replay and a purge in the audit log: one line before, one after, whoever writes them."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from common.errors import PermanentError
from desk.console.audited import AuditedDeadLetters, Keeper
from desk.console.limits import Limits
from desk.dead_letters.engine import Watch
from desk.dead_letters.service import DeadLetterDesk
from tests.contracts.dead_letters.conftest import ADA, Namespace, change, order


@pytest.mark.parametrize("kind", ["replay", "purge"])
def test_in_the_background_a_change_has_one_line_before_and_one_after(namespace: Namespace, kind: str) -> None:
    """Through the console's keeper: the number of one request, and figures once it has ended."""
    namespace.bury([change(n) for n in range(1, 4)])
    desk = DeadLetterDesk(namespace.engine(), lambda unread, stop: [])
    kept = AuditedDeadLetters(desk, Keeper(namespace.audit, Limits(), allow_changes=True))
    with closing(desk):
        begun = (kept.replay if kind == "replay" else kept.purge)(order(dry_run=False, reason="why"), ADA)
        until = time.monotonic() + 60
        while kept.operation(begun.id).state == "running" and time.monotonic() < until:
            time.sleep(0.02)
    lines = [line for line in namespace.audit.lines(after=None, most=10).items if "removed" not in line.details]
    assert [(line.action, line.outcome, line.target) for line in lines] == [
        (f"dead_letters.{kind}", "done", "queue"),
        (f"dead_letters.{kind}", "begun", "queue"),
    ]
    assert {(line.request, line.reason) for line in lines} == {(ADA.request, "why")}
    assert lines[0].details["operation"] == begun.id
    assert lines[0].details["replayed" if kind == "replay" else "purged"] == 3


def test_a_change_that_fails_in_the_background_says_so(namespace: Namespace) -> None:
    namespace.bury([change(1)])

    def broken() -> None:
        raise PermanentError("SQL Server has said no")

    with pytest.raises(PermanentError):
        namespace.engine(broken).finish(order(), "replay", ADA, Watch(), "queue", operation="o1")
    [line] = namespace.audit.lines(after=None, most=10).items
    assert (line.outcome, line.details["error"], line.details["replayed"]) == ("failed", "SQL Server has said no", 0)
