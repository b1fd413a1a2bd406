"""The port `Audit` in memory. `full`: it can keep no line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from common.errors import ConfigurationError, PermanentError
from desk.audit import line_of
from desk.desk import Actor
from desk.documents.audit import AuditLine
from desk.documents.shape import Page


@dataclass(slots=True)
class FakeAudit:
    now: Callable[[], float]
    full: bool = False
    written: list[AuditLine] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def write(
        self,
        actor: Actor,
        action: str,
        target: str,
        outcome: Literal["begun", "done", "refused", "failed"],
        *,
        reason: str | None = None,
        **details: Any,
    ) -> None:
        if self.full:
            raise PermanentError("writing the audit log: no space left on device", hint="make space")
        at = datetime.fromtimestamp(self.now(), UTC)
        line = line_of(at, actor, action, target, outcome, reason=reason, details=details)
        with self.lock:
            self.written.append(line)

    def lines(self, *, after: str | None, most: int) -> Page[AuditLine]:
        with self.lock:
            newest = list(reversed(self.written))
        if after is not None and not (after.isascii() and after.isdecimal() and len(after) < 19):
            raise ConfigurationError([f"after: {after[:100]!r} does not come from a page"], hint="leave it out")
        total = len(newest)
        start = 0 if after is None else max(0, total - int(after))
        items = newest[start : start + most]
        left = total - start - len(items)
        return Page[AuditLine](items=items, next=str(left) if left > 0 else None, total=total)
