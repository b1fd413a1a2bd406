"""Routes of the explorer: messages of an entity, and the way of a change."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from common.errors import ConfigurationError
from desk.console.http.problems import described
from desk.console.http.served import Asked, At
from desk.documents.messages import EntityName, MessageDetail, MessageFilter, MessagePage, Stories, StoryOrder, Text

router = APIRouter(tags=["messages"])
_KEY = "key."
_OWN = frozenset(("entity", "dead", "after", "most", "newest_first"))


class MessagesAsked(MessageFilter):
    entity: EntityName = Field(description="As `entities` names it.")
    dead: bool = Field(default=False, description="Its dead letters instead.")
    after: str | None = Field(default=None, max_length=2000, description="`next` of the page before.")
    most: int = Field(default=50, ge=1, le=500)
    newest_first: bool = False


class MessageAsked(Asked):
    entity: EntityName = Field(description="As `entities` names it.")
    dead: bool = False


@router.get("/messages", response_model=MessagePage, responses=described(404, 501, 502))
async def messages(at: At, asked: Annotated[MessagesAsked, Query()]) -> Response:
    """Messages as they lie in an entity. Looking at them takes nothing and locks nothing."""
    chosen = MessageFilter(**asked.model_dump(exclude=set(_OWN)))
    return await at.document(
        "messages",
        at.desk.messages.page,
        asked.entity,
        dead=asked.dead,
        chosen=chosen,
        after=asked.after,
        most=asked.most,
        newest_first=asked.newest_first,
    )


@router.get("/messages/{sequence}", response_model=MessageDetail, responses=described(404, 501, 502))
async def message(
    at: At, sequence: Annotated[int, Path(ge=0, lt=2**63)], asked: Annotated[MessageAsked, Query()]
) -> Response:
    """One message, with its properties and its body."""
    return await at.document("messages", at.desk.messages.message, asked.entity, dead=asked.dead, sequence=sequence)


@router.get("/stories", response_model=Stories, responses=described(404, 501, 502))
async def stories(
    at: At,
    request: Request,
    event_id: Text | None = None,
    table: Text | None = None,
    most: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Response:
    """The way of a change by its `event_id`, or of a row's changes by `table` and its key: `key.ID=7` for each column of it."""
    key, others = dict[str, str](), list[str]()
    for name, value in request.query_params.multi_items():
        if name.startswith(_KEY) and name not in key:
            key[name.removeprefix(_KEY)] = value
        elif name not in ("event_id", "table", "most"):
            others.append(name)
    if others or len(key) > 32:
        raise ConfigurationError(
            [f"unknown parameter {others[0][:100]}" if others else "a key of more than 32 columns"]
        )
    if empty := [name for name, value in key.items() if not value]:
        raise ConfigurationError(
            [f"{_KEY}{empty[0][:100]}: it has no value"],
            hint="give the value of the row's key; POST stories takes an empty text too",
        )
    return await _told(at, StoryOrder(event_id=event_id, table=table, key=key or None, most=most))


@router.post("/stories", response_model=Stories, responses=described(404, 501, 502))
async def stories_of(at: At, order: StoryOrder) -> Response:
    """As GET, for keys with any characters. Nothing is changed."""
    return await _told(at, order)


async def _told(at: At, order: StoryOrder) -> Response:
    return await at.document("messages", at.desk.messages.stories, order)
