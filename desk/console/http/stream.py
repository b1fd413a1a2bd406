"""The route of server-sent events: a page is told what has changed, and need not ask."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import StreamingResponse

from desk.console.guard import Identity
from desk.console.http.problems import described
from desk.console.http.served import At
from desk.console.limits import streaming_client_of

router = APIRouter(tags=["events"])


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events `overview`, `tables` and `operations`.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **described(),
    },
)
async def events(
    at: At, request: Request, last_event_id: Annotated[str | None, Header(max_length=40)] = None
) -> StreamingResponse:
    """`overview`: an Overview. `tables`: `{"complete", "items", "gone"}`, the tables that have changed; with `complete`, all that a page
    knew before is void. `operations`: `{"items"}`. A line every 15 seconds shows that the stream lives."""
    last = int(last_event_id) if last_event_id and last_event_id.isascii() and last_event_id.isdecimal() else None
    at.events.start(at.desk)
    found: Identity = request.state.identity
    reader = at.events.open(last, streaming_client_of(request.state.address, found))
    return StreamingResponse(
        at.events.lines(reader), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
    )
