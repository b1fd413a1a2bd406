"""Who changed what."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from desk.documents.shape import Document


class AuditLine(Document):
    """One line of the audit log. It is written before the change is made (`begun`), and again with what came of it."""

    at: str
    who: str = Field(
        description="The person, as the proxy or the token file says, or `token` without a name, or the local user."
    )
    through: Literal["command", "page", "http", "grpc"]
    address: str | None = None
    action: str = Field(description="`dead_letters.replay`, `offset.move`, `table.pause`, ...")
    target: str
    outcome: Literal["begun", "done", "refused", "failed"]
    details: dict[str, Any] = Field(default_factory=dict)
    reason: str | None = None
    request: str = Field(description="The same for all lines of one request.")
