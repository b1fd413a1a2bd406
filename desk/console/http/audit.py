"""The route of the audit log: who changed what."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from desk.console.http.problems import described
from desk.console.http.served import Asked, At
from desk.documents.audit import AuditLine
from desk.documents.shape import Page

router = APIRouter(tags=["audit"])


class AuditAsked(Asked):
    after: str | None = Field(default=None, max_length=2000, description="`next` of the page before.")
    most: int = Field(default=50, ge=1, le=500)


@router.get("/audit", response_model=Page[AuditLine], responses=described(501, 502))
async def audit(at: At, asked: Annotated[AuditAsked, Query()]) -> Response:
    """Changes that were asked for, the newest first."""
    return await at.document("audit", at.desk.audit.lines, after=asked.after, most=asked.most)
