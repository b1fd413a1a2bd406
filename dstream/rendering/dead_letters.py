"""The results of `dstream dlq` as text and as JSON. The keys of the JSON are documented (docs/dead_letters.md) and stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from common.unread import Unread
from dstream.rendering.columns import or_dash, table

if TYPE_CHECKING:
    from desk.dead_letters.engine import Kind, Watch
    from desk.documents.messages import DeadLetterCount, DeadLetterResult, MessageDetail, MessagePage

_COUNTS = ("ENTITY", "REASON", "DEAD LETTERS")
_LISTED = ("SEQUENCE", "ENQUEUED", "REASON", "TABLE", "OPERATION", "MESSAGE ID", "REPLAYS", "DESCRIPTION")
_DESCRIPTION = 80
_SHOWN_LEFT = 20


def count_lines(found: Sequence[DeadLetterCount], unread: Sequence[Unread]) -> list[str]:
    lines = [f"unknown: {each}" for each in unread]
    if not found:
        return [*lines, "no dead letters among those that could be seen" if unread else "no dead letters"]
    rows = list[tuple[str, str, str]]()
    for each in found:
        for reason, count in each.reasons.items():
            rows.append((each.entity, reason or "-", f"{count:,}"))
        if each.total is None:
            rows.append((each.entity, "not looked at", "more"))
        elif each.total > each.examined:
            rows.append((each.entity, "not looked at", f"{each.total - each.examined:,}"))
    return [*lines, *table(_COUNTS, rows, right=("DEAD LETTERS",))]


def counts_document(found: Sequence[DeadLetterCount], unread: Sequence[Unread]) -> dict[str, Any]:
    return {
        "entities": [each.model_dump(mode="json") for each in found],
        "unknown": [{"what": each.what, "text": each.why, "remedy": each.hint} for each in unread],
    }


def page_lines(page: MessagePage) -> list[str]:
    lines = [f"unknown: {each.what}: {each.text}" for each in page.unknown]
    rows = [
        (
            str(each.sequence),
            or_dash(each.enqueued_at),
            or_dash(each.reason),
            or_dash(each.table),
            or_dash(each.operation),
            or_dash(each.message_id),
            str(each.replays) if each.replays else "-",
            _short(each.description),
        )
        for each in page.items
    ]
    lines += table(_LISTED, rows, right=("SEQUENCE", "REPLAYS")) if rows else ["no dead letters like that"]
    if page.next is not None:
        lines.append(f"there may be more: --after {page.next}")
    return lines


def page_document(page: MessagePage) -> dict[str, Any]:
    document: dict[str, Any] = page.model_dump(mode="json")
    return document


def _short(text: str | None) -> str:
    if not text:
        return "-"
    return text if len(text) <= _DESCRIPTION else f"{text[: _DESCRIPTION - 3]}..."


def message_lines(found: MessageDetail) -> Iterator[str]:
    for name, value in (
        ("sequence", found.sequence),
        ("message id", found.message_id),
        ("event id", found.event_id),
        ("session", found.session_id),
        ("table", found.table),
        ("operation", found.operation),
        ("LSN", found.lsn),
        ("committed", found.commit_time),
        ("enqueued", found.enqueued_at),
        ("deliveries", found.delivery_count),
        ("replays", found.replays or None),
        ("reason", found.reason),
        ("description", found.description),
        ("fault", found.fault),
        ("what to do", found.remedy),
    ):
        if value is not None:
            yield f"{name + ':':<13} {_plain(str(value))}"
    for name, value in found.properties.items():
        yield f"{'property:':<13} {_plain(name)} = {_plain(str(value))}"
    if found.body is None:
        yield f"{'body:':<13} {found.size:,} bytes that are no text, or more than {found.body_limit:,}"
    else:
        yield ""
        yield from (_plain(line) for line in found.body.splitlines())


def _plain(text: str) -> str:
    """Without characters that a terminal would obey."""
    return "".join(each if each.isprintable() else " " for each in text)


def asked_lines(plan: DeadLetterResult) -> Iterator[str]:
    """What a purge asks."""
    yield f"{_counted(plan.purged)} of {plan.entity} would be removed for ever, without being sent."
    yield "Repeat the name of the entity to remove them:"


def progress_line(watch: Watch) -> str:
    if watch.waiting:
        return f"waiting until another consumer's locks end ({_counted(watch.waiting)}); {watch.done:,} done"
    if watch.matched:
        return f"{watch.done:,} of {watch.matched:,} done"
    return f"{watch.examined:,} looked at"


def result_lines(result: DeadLetterResult, kind: Kind) -> Iterator[str]:
    done = result.replayed if kind == "replay" else result.purged
    verb = "sent again" if kind == "replay" else "removed"
    yield f"{result.entity}: {_counted(result.matched)} {_be(result)} meant"
    yield f"{'would be ' if result.dry_run else ''}{verb}: {done:,}"
    if result.left_count:
        yield f"left where they are: {result.left_count:,}"
        for each in result.left[:_SHOWN_LEFT]:
            yield f"  {each.sequence} ({or_dash(each.message_id)}): {each.why}"
        if len(result.left) > _SHOWN_LEFT:
            yield "  ..."
    for text in result.warnings:
        yield f"warning: {text}"
    if not result.complete:
        yield "not all were reached; the same command goes on"
    if result.dry_run:
        yield "nothing was changed: --dry-run"


def _counted(count: int) -> str:
    return "1 dead letter" if count == 1 else f"{count:,} dead letters"


def _be(result: DeadLetterResult) -> str:
    one = result.matched == 1
    return ("is" if one else "are") if result.dry_run else ("was" if one else "were")
