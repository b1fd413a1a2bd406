"""The options that say which dead letters are meant, the same for every command. Refuses a filter that cannot be one; looks at no dead letter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from common.errors import ConfigurationError
from dstream.options import moment

if TYPE_CHECKING:
    from desk.documents.messages import MessageFilter

Chosen = Any
"""A parameter `chosen` of a command that is `filtered`: its MessageFilter, which nobody loads before it is needed."""

Table = Annotated[str | None, typer.Option("--table", metavar="TABLE", help="Of this table.")]
ReasonIs = Annotated[
    str | None,
    typer.Option("--reason", metavar="REASON", help="Dead-lettered for this reason, such as MessageTooLarge."),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="First put into the entity (not: died) at this time or later, ISO 8601; UTC without a zone.",
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="First put into the entity before this time.")
]
Id = Annotated[str | None, typer.Option("--id", metavar="ID", help="With this message id.")]
EventId = Annotated[str | None, typer.Option("--event-id", metavar="ID", help="Of the change with this EventID.")]
Session = Annotated[str | None, typer.Option("--session", metavar="ID", help="Of this session.")]
Text = Annotated[str | None, typer.Option("--text", metavar="TEXT", help="With this text in the body.")]


def filtered(command: Callable[..., int]) -> Callable[..., int]:
    """`command` with the options of a filter in place of its parameter `chosen`."""
    shared = inspect.signature(_filter).parameters
    own = inspect.signature(command).parameters.values()

    @wraps(command)
    def run(**given: Any) -> int:
        told = {name: given.pop(name) for name in shared}
        return command(chosen=_filter(**told), **given)

    kinds = {**get_type_hints(command, include_extras=True), **_kinds()}
    taken = [part for each in own for part in (shared.values() if each.name == "chosen" else (each,))]
    run.__annotations__ = {each.name: kinds[each.name] for each in taken}
    run.__signature__ = inspect.Signature([each.replace(annotation=kinds[each.name]) for each in taken])  # type: ignore[attr-defined]
    return run


def _kinds() -> dict[str, Any]:
    """Of the options of a filter."""
    asked = {name: text for name, text in _filter.__annotations__.items() if name != "return"}
    return {name: globals()[text] for name, text in asked.items()}


def _filter(
    table: Table = None,
    reason: ReasonIs = None,
    since: Since = None,
    until: Until = None,
    message_id: Id = None,
    event_id: EventId = None,
    session: Session = None,
    text: Text = None,
) -> MessageFilter:
    """Raises ConfigurationError."""
    from pydantic import ValidationError

    from desk.documents.messages import MessageFilter

    try:
        return MessageFilter(
            table=table,
            reason=reason,
            message_id=message_id,
            event_id=event_id,
            session_id=session,
            text=text,
            since=None if since is None else moment(since, "--since"),
            until=None if until is None else moment(until, "--until"),
        )
    except ValidationError as error:
        names = {"message_id": "id", "event_id": "event-id", "session_id": "session"}
        raise ConfigurationError(
            [f"--{names.get(str(each['loc'][0]), each['loc'][0])}: {each['msg']}" for each in error.errors()]
        ) from None
