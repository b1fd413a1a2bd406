"""What every route has: the desk, the person who asks, and the way an answer is written. Documents are written by the thread that got them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from desk.console.access import Access
from desk.console.calls import OF_CHANGE, OF_LOOK, Calls, Kind
from desk.console.guard import Identity
from desk.console.http.events import Events
from desk.console.limits import Limits
from desk.console.peers import Peers, name_of, own_account
from desk.console.sessions import Sessions
from desk.console.tokens import TokenFile
from desk.desk import Actor, Desk
from desk.documents.shape import Page

M = TypeVar("M", bound=BaseModel)
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Served:
    """`desk`: audited. `tokens`: where a token lets in. `local_user`: this process's account."""

    desk: Desk
    access: Access
    allow_changes: bool
    limits: Limits = field(default_factory=Limits)
    tokens: TokenFile | None = None
    sessions: Sessions = field(default_factory=Sessions)
    calls: Calls = field(default_factory=Calls)
    events: Events = field(default_factory=Events)
    peers: Peers = field(default_factory=own_account)
    local_user: str = field(default_factory=lambda: name_of(own_account().own))
    version: str = field(default_factory=lambda: metadata.version("dstream-cdc"))

    async def document(
        self,
        kind: Kind,
        call: Callable[..., BaseModel],
        *given: Any,
        status: int = 200,
        headers: Callable[[Any], Mapping[str, str]] | None = None,
        about: str | None = None,
        **named: Any,
    ) -> Response:
        """The answer of a port. `headers`: what its document means for them. `about`: what is asked for, where the first of `given` does not
        name it."""

        def written() -> tuple[bytes, Mapping[str, str]]:
            found = call(*given, **named)
            return found.model_dump_json().encode(), headers(found) if headers else {}

        changes = any(isinstance(each, Actor) for each in given)
        body, more = await self.calls.of(
            kind, written, overdue=OF_CHANGE if changes else OF_LOOK, about=about or _about(given)
        )
        return Response(body, status, dict(more), _JSON)

    def user_at(self, peer: tuple[str, int], port: int | None) -> str:
        """Whose connection it is, where no token is needed. Raises NotAllowed for other accounts of this machine."""
        account = self.peers.account(peer, port)
        return self.local_user if account in (None, self.peers.own) else name_of(account or 0)

    async def items(
        self, kind: Kind, of: type[M], call: Callable[..., Sequence[M]], *given: Any, **named: Any
    ) -> Response:
        """A list that a port returns as a whole, as the only page."""

        def page() -> BaseModel:
            found = list(call(*given, **named))
            return Page[of](items=found, total=len(found))  # type: ignore[valid-type]

        return await self.document(kind, page, about=_about(given))


def _about(given: Sequence[Any]) -> str:
    """The entity or the table that a call names first."""
    first = given[0] if given else None
    found = first if isinstance(first, str) else getattr(first, "entity", None)
    return found if isinstance(found, str) else ""


def served_by(request: Request) -> Served:
    found: Served = request.app.state.served
    return found


def actor_of(request: Request) -> Actor:
    """Who asks; the gate has let nobody else through."""
    identity: Identity = request.state.identity
    return Actor(
        who=identity.who, through=identity.through, request=request.state.request_id, address=request.state.address
    )


At = Annotated[Served, Depends(served_by)]
By = Annotated[Actor, Depends(actor_of)]
Name = Annotated[str, Path(max_length=300, description="Percent-encoded, with its slashes.")]


class Asked(BaseModel):
    """Parameters of a query; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
