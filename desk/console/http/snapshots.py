"""Routes of snapshots: the rows that tables hold now, sent while their changes go on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from desk.console.http.problems import described
from desk.console.http.served import At, By
from desk.console.http.tables import ListAsked
from desk.desk import SnapshotChange
from desk.documents.shape import Page
from desk.documents.tables import Snapshot, SnapshotAnswer, SnapshotOrder

router = APIRouter(tags=["snapshots"])
Id = Annotated[str, Path(max_length=100)]


@router.get("/snapshots", response_model=Page[Snapshot], responses=described(404, 501, 502))
async def snapshots(at: At, asked: Annotated[ListAsked, Query()]) -> Response:
    """Snapshots: those that are not over first, then the newest."""
    return await at.items("tables", Snapshot, at.desk.tables.snapshots, asked.table, asked.most)


@router.post("/snapshots", response_model=SnapshotAnswer, responses=described(404, 409, 501, 502))
async def snapshot(at: At, by: By, order: SnapshotOrder) -> Response:
    """Ask for a snapshot. A dry run unless `dry_run` is false."""
    return await at.document("tables", at.desk.tables.snapshot, order, by)


async def _change(at: At, by: By, id: str, change: SnapshotChange) -> Response:
    return await at.document("tables", at.desk.tables.change_snapshot, id, change, by)


@router.post("/snapshots/{id}/pause", response_model=Snapshot, responses=described(404, 409, 501, 502))
async def pause_snapshot(at: At, by: By, id: Id) -> Response:
    """Let a snapshot wait until it is resumed."""
    return await _change(at, by, id, "pause")


@router.post("/snapshots/{id}/resume", response_model=Snapshot, responses=described(404, 409, 501, 502))
async def resume_snapshot(at: At, by: By, id: Id) -> Response:
    """Resume a snapshot that was paused or that failed."""
    return await _change(at, by, id, "resume")


@router.post("/snapshots/{id}/stop", response_model=Snapshot, responses=described(404, 409, 501, 502))
async def stop_snapshot(at: At, by: By, id: Id) -> Response:
    """End a snapshot; it cannot be resumed."""
    return await _change(at, by, id, "stop")
