"""Routes of dead letters: counted, replayed, purged, and what runs of that. They are looked at with `messages`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from desk.console.http.problems import described
from desk.console.http.served import At, By
from desk.documents.messages import DeadLetterCounts, DeadLetterOrder, DeadLetterResult, Operation
from desk.documents.shape import Page

router = APIRouter(tags=["dead letters"])
Id = Annotated[str, Path(max_length=100)]


@router.get("/dead-letters", response_model=DeadLetterCounts, responses=described(501, 502))
async def counts(at: At) -> Response:
    """Dead letters of each entity, by reason and table; and the entities that could not be looked at."""
    return await at.document("dead_letters", at.desk.dead_letters.counts)


@router.post("/dead-letters/plan", response_model=DeadLetterResult, responses=described(404, 409, 501, 502))
async def plan(at: At, order: DeadLetterOrder) -> Response:
    """What a replay would do. Nothing is changed."""
    return await at.document("dead_letters", at.desk.dead_letters.plan, order)


@router.post("/dead-letters/replay", status_code=202, response_model=Operation, responses=described(404, 409, 501, 502))
async def replay(at: At, by: By, order: DeadLetterOrder) -> Response:
    """Send dead letters again, in the background. A dry run unless `dry_run` is false."""
    return await at.document("dead_letters", at.desk.dead_letters.replay, order, by, status=202)


@router.post("/dead-letters/purge", status_code=202, response_model=Operation, responses=described(404, 409, 501, 502))
async def purge(at: At, by: By, order: DeadLetterOrder) -> Response:
    """Remove dead letters for ever, in the background. A dry run unless `dry_run` is false."""
    return await at.document("dead_letters", at.desk.dead_letters.purge, order, by, status=202)


@router.get("/operations", response_model=Page[Operation], responses=described(501, 502))
async def operations(at: At) -> Response:
    """What runs and has run since this console began, the newest first."""
    return await at.items("seen", Operation, at.desk.dead_letters.operations)


@router.get("/operations/{id}", response_model=Operation, responses=described(404, 501, 502))
async def operation(at: At, id: Id) -> Response:
    """How far an operation has come."""
    return await at.document("seen", at.desk.dead_letters.operation, id)


@router.post("/operations/{id}/stop", response_model=Operation, responses=described(404, 409, 501, 502))
async def stop(at: At, by: By, id: Id) -> Response:
    """Stop an operation: what is in flight is finished, the rest stays where it is."""
    return await at.document("dead_letters", at.desk.dead_letters.stop, id, by)
