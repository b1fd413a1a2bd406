"""What `dstream check` says of the tables that patterns match now. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from common.check import BY_EDITING, Finding, by_hand, fail, ok, warn
from ingester.finding.finder import COLLIDES, HIDDEN, IDLE, NO_MATCH, RENAMED, WAITS
from ingester.finding.matches import Matches, UnderCdc
from ingester.settings import IngesterSettings

_LISTED = 20


def judge(settings: IngesterSettings, there: UnderCdc, found: Matches) -> Iterator[Finding]:
    """`settings`: as the file has them."""
    for pattern in settings.selection.patterns:
        names = [table.key for table, by in found.found.items() if by == pattern]
        subject = f"pattern {pattern}"
        if names:
            more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
            yield ok(subject, f"matches {len(names)} now: {', '.join(names[:_LISTED])}{more}")
        elif there.has(pattern):
            yield ok(subject, "matches only tables that another entry includes or takes away")
        else:
            yield warn(subject, "matches no table under Change Data Capture", NO_MATCH, fix=BY_EDITING)
    for first, later in found.colliding:
        text = f"left out, because {first.key} has its topic"
        yield warn(f"table {later.key}", text, COLLIDES, fix=by_hand("which of the two is sent is a choice"))
    for table, former in found.renamed:
        text = f"left out, because it was renamed from {former}"
        yield fail(f"table {table.key}", text, RENAMED, fix=BY_EDITING)
    for table, meant in (*found.waiting, *found.in_doubt):
        text = "is sent without an override" if table in found.found else "left out"
        yield fail(
            f"table {table.key}", f"{text}, and the override of {meant.key} holds for no table", WAITS, fix=BY_EDITING
        )
    for name in found.idle:
        yield warn(f"override {name.key}", "holds for no table", IDLE, fix=BY_EDITING)
    if there.hidden:
        text = f"{there.hidden} tables under Change Data Capture are hidden from the login"
        yield warn("patterns", text, HIDDEN, fix=by_hand("their names are not known to the login"))
