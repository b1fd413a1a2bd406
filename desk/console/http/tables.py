"""Routes of tables: their state and history, and their pauses and offsets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from desk.console.http.names import CONVERTOR
from desk.console.http.problems import described
from desk.console.http.served import Asked, At, By, Name
from desk.console.lists import Sort, page_of_tables
from desk.documents.messages import Text
from desk.documents.shape import Page
from desk.documents.tables import (
    History,
    Move,
    OffsetOrder,
    OffsetResult,
    PauseOrder,
    Table,
    TableOffset,
    TableState,
)

router = APIRouter(tags=["tables"])
_ONE = f"/tables/{{table:{CONVERTOR}}}"


class TablesAsked(Asked):
    state: list[TableState] = Field(default_factory=list, max_length=20, description="Any of these.")
    search: Text | None = Field(default=None, description="Somewhere in the name, in any case.")
    sort: Sort = Field(
        default="configured", description="The worst first; `configured`: as the configuration has them."
    )
    after: str | None = Field(default=None, max_length=2000, description="`next` of the page before.")
    most: int = Field(default=100, ge=1, le=1000)


class ListAsked(Asked):
    table: Text | None = None
    most: int = Field(default=50, ge=1, le=1000)


@router.get("/tables", response_model=Page[Table], responses=described())
async def tables(at: At, asked: Annotated[TablesAsked, Query()]) -> Response:
    """Tables as the stores know them."""
    return await at.document(
        "seen",
        lambda: page_of_tables(
            at.desk.watching.tables(),
            states=asked.state,
            search=asked.search,
            sort=asked.sort,
            after=asked.after,
            most=asked.most,
        ),
    )


@router.get("/history", response_model=History, responses=described())
async def history(at: At) -> Response:
    """The last hour of all tables together."""
    return await at.document("seen", at.desk.watching.history, None)


@router.get(_ONE, response_model=Table, responses=described(404))
async def table(at: At, table: Name) -> Response:
    """One table, by its name in any case."""
    return await at.document("seen", at.desk.watching.table, table)


@router.get(f"{_ONE}/history", response_model=History, responses=described(404))
async def table_history(at: At, table: Name) -> Response:
    """The last hour of a table."""
    return await at.document("seen", at.desk.watching.history, table)


@router.post(f"{_ONE}/pause", response_model=Table, responses=described(404, 409, 501, 502))
async def pause(at: At, by: By, table: Name, order: PauseOrder) -> Response:
    """Have ingesters leave the table alone until it is resumed. Its changes wait in SQL Server, until cleanup reaches them."""
    return await at.document("tables", at.desk.tables.pause, table, order, by)


@router.post(f"{_ONE}/resume", response_model=Table, responses=described(404, 409, 501, 502))
async def resume(at: At, by: By, table: Name, order: PauseOrder) -> Response:
    """End the pause of a table."""
    return await at.document("tables", at.desk.tables.resume, table, order, by)


@router.post(f"{_ONE}/offset", response_model=OffsetResult, responses=described(404, 409, 501, 502))
async def move_offset(at: At, by: By, table: Name, order: OffsetOrder) -> Response:
    """Move how far a table was sent. A dry run unless `dry_run` is false; not done while a confirmation is lacking."""
    return await at.document("tables", at.desk.tables.move_offset, table, order, by)


@router.get("/offsets", response_model=Page[TableOffset], responses=described())
async def offsets(at: At) -> Response:
    """How far each table was sent."""
    return await at.items(
        "seen",
        TableOffset,
        lambda: [
            TableOffset(table=each.table, offset=each.offset, lag=each.lag, headroom_seconds=each.headroom_seconds)
            for each in at.desk.watching.tables()
        ],
    )


@router.get("/offsets/moves", response_model=Page[Move], responses=described(404, 501, 502))
async def moves(at: At, asked: Annotated[ListAsked, Query()]) -> Response:
    """Offsets that somebody moved, the newest first."""
    return await at.items("tables", Move, at.desk.tables.moves, asked.table, asked.most)
