"""Routes of what the console sees at a glance: the overview, entities, topics, processes, and what has not arrived yet."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from desk.console.http.problems import described
from desk.console.http.served import At
from desk.console.lists import topics_of
from desk.documents.overview import Entity, Overview, Process, Topic, Unacknowledged
from desk.documents.shape import Page

router = APIRouter(tags=["overview"])


@router.get("/overview", response_model=Overview, responses=described())
async def overview(at: At) -> Response:
    """The whole at a glance."""
    return await at.document("seen", at.desk.watching.overview)


@router.get("/entities", response_model=Page[Entity], responses=described())
async def entities(at: At) -> Response:
    """Queues, topics and subscriptions, with what lies in each."""
    return await at.items("seen", Entity, at.desk.watching.entities)


@router.get("/topics", response_model=Page[Topic], responses=described())
async def topics(at: At) -> Response:
    """Topics, with their tables and subscriptions."""
    watching = at.desk.watching
    return await at.items("seen", Topic, lambda: topics_of(watching.tables(), watching.entities()))


@router.get("/processes", response_model=Page[Process], responses=described())
async def processes(at: At) -> Response:
    """Ingesters and routers whose health ports the console reads."""
    return await at.items("seen", Process, lambda: at.desk.watching.overview().processes)


@router.get("/unacknowledged", response_model=Page[Unacknowledged], responses=described())
async def unacknowledged(at: At) -> Response:
    """What was sent and has not arrived."""
    return await at.items("seen", Unacknowledged, at.desk.watching.unacknowledged)
