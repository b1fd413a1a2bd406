"""Routes of the session: who is logged in, logging in with a token, and logging out."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from desk.console.guard import COOKIE, SECURE_COOKIE, Asked, Identity, is_secure
from desk.console.http.problems import described
from desk.console.http.served import At, Served
from desk.console.limits import network_of
from desk.console.refusals import NotAllowed, Unauthenticated
from desk.console.sessions import LASTS_SECONDS
from desk.console.tokens import fingerprint
from desk.documents.shape import Document

router = APIRouter(tags=["session"])


class Session(Document):
    """Who asks, and what this console lets them do."""

    who: str | None = Field(default=None, description="Null: nobody is logged in.")
    access: Literal["local", "token", "proxy"] = Field(description="How a person is let in.")
    login: bool = Field(description="Whether a token must be given first.")
    changes_allowed: bool
    csrf: str | None = Field(default=None, description="To be sent as `X-CSRF-Token` with each change from a page.")
    version: str


class Login(Document):
    token: str = Field(max_length=1000, repr=False)


def _session(at: Served, found: Identity | None) -> Session:
    return Session(
        who=None if found is None else found.who,
        access=at.access.mode,
        login=found is None and at.access.login,
        changes_allowed=at.allow_changes,
        csrf=None if found is None or found.explicit else at.sessions.csrf(found.subject),
        version=at.version,
    )


def _written(session: Session, cookie: str | None = None) -> Response:
    response = Response(session.model_dump_json(), media_type="application/json")
    if cookie is not None:
        response.headers["set-cookie"] = cookie
    return response


def _cookie(at: Served, asked: Asked, value: str, lasts: int) -> str:
    secure = is_secure(at.access, asked)
    name = SECURE_COOKIE if secure else COOKIE
    return f"{name}={value}; Path=/; Max-Age={lasts}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"


@router.get("/session", response_model=Session, responses=described())
async def session(at: At, request: Request) -> Response:
    """Who asks, and what is allowed. Needs nobody to be logged in."""
    return _written(_session(at, request.state.identity))


@router.post("/session", response_model=Session, responses=described())
async def login(at: At, request: Request, given: Login) -> Response:
    """Log in with a token: the answer sets a cookie that lasts for twelve hours, or until the token is another one."""
    asked: Asked = request.state.asked
    if at.tokens is None:
        raise NotAllowed("this console takes no token", hint="nobody need log in here")
    network = network_of(asked.address)
    who = at.tokens.person(given.token.strip())
    if who is None:
        at.limits.logins.take(network)
        raise Unauthenticated("the token is not right", hint="use a token of the file that --token-file names")
    cookie = at.sessions.begin(fingerprint(given.token.strip()))
    found = Identity(who, f"session {cookie}", "page", cookie=cookie)
    return _written(_session(at, found), _cookie(at, asked, cookie, int(LASTS_SECONDS)))


@router.delete("/session", response_model=Session, responses=described())
async def logout(at: At, request: Request) -> Response:
    """Log out: the session holds no longer, wherever its cookie was kept."""
    found: Identity = request.state.identity
    if found.cookie is not None:
        at.sessions.end(found.cookie)
    return _written(_session(at, None), _cookie(at, request.state.asked, "", 0))
