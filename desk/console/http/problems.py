"""Errors as one document (RFC 9457), whatever raised them. Never a traceback, never a value that was given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import structlog
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from common.errors import ConfigurationError, DStreamError, PermanentError, TransientError, Unfit, unforeseen
from common.observability.logs import masked
from desk.console.refusals import AuditUnavailable, Busy, Missing, NotAllowed, Overdue, TooMany, Unauthenticated
from desk.desk import Conflict, NotFound
from desk.documents.shape import Document

log = structlog.get_logger(__name__)

MEDIA_TYPE: Final = "application/problem+json"


class Fault(Document):
    where: str = Field(description="The part of the request, such as `body.entity`.")
    what: str


class Problem(Document):
    """Why a request was not answered."""

    type: str = Field(description="For programs: `about:blank#` and a word.")
    title: str
    status: int
    detail: str = Field(description="For a person: what is wrong, and where.")
    remedy: str | None = Field(default=None, description="What to do about it.")
    request: str = Field(description="As `X-Request-Id`; log and audit log have it, too.")
    faults: list[Fault] = Field(default_factory=list, description="Of a request that is not as described.")


class Refused(DStreamError):
    """What HTTP itself refuses: of a size, a type or a speed that is not taken."""

    def __init__(self, status: int, word: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status, self.word = status, word


_KINDS: Final[Sequence[tuple[type[DStreamError], int, str, str]]] = (
    (ConfigurationError, 422, "invalid", "The request cannot be right"),
    (Unfit, 422, "invalid", "The request cannot be right"),
    (NotFound, 404, "not-found", "There is no such thing"),
    (Conflict, 409, "conflict", "It is not as the request supposes"),
    (Unauthenticated, 401, "unauthenticated", "Nobody is logged in"),
    (NotAllowed, 403, "not-allowed", "Not allowed"),
    (Missing, 501, "missing", "This console has no such part"),
    (AuditUnavailable, 503, "audit", "The audit log cannot be written"),
    (Busy, 503, "busy", "Too many requests wait"),
    (TooMany, 429, "too-many", "Too many requests"),
    (Overdue, 504, "overdue", "No answer in time"),
    (TransientError, 503, "unavailable", "It may work later"),
    (PermanentError, 502, "failed", "A store has refused"),
)
"""The first that fits."""

_STATUSES: Final = {
    400: ("bad-request", "Bad request"),
    404: ("not-found", "There is no such path"),
    405: ("method", "This path has no such method"),
}

_REMEDIES: Final = {
    400: "send a body that is JSON, and not nested deeply",
    404: "see /api/v1/openapi.json for the paths",
    405: "see /api/v1/openapi.json for the methods",
}


def problem_of(error: Exception, request: str) -> tuple[Problem, dict[str, str]]:
    """The document and the headers of an answer."""
    headers = dict[str, str]()
    if isinstance(error, RequestValidationError):
        return _unlike_its_description(error, request), headers
    if isinstance(error, HTTPException):
        word, title = _STATUSES.get(error.status_code, ("http", "The request was refused"))
        headers.update(error.headers or {})
        return _problem(error.status_code, word, title, title, _REMEDIES.get(error.status_code), request), headers
    if isinstance(error, TooMany):
        headers["retry-after"] = str(max(1, math.ceil(error.after)))
    elif isinstance(error, TransientError):
        headers["retry-after"] = "5"
    elif isinstance(error, Unauthenticated):
        headers["www-authenticate"] = 'Bearer realm="dstream"'
    if isinstance(error, Refused):
        title = "The request was refused"
        return _problem(error.status, error.word, title, error.message, error.hint, request), headers
    for kind, status, word, title in _KINDS:
        if isinstance(error, kind):
            return _problem(status, word, title, error.message, error.hint, request), headers
    text = unforeseen(error)
    log.error("request failed", request=request, error=text, hint="this is a defect of DStream: report this line")
    detail = "this is a defect of DStream; the console's log has a line with this request"
    return _problem(500, "defect", "It failed", detail, "report that line", request), headers


def _problem(status: int, word: str, title: str, detail: str, remedy: str | None, request: str) -> Problem:
    return Problem(
        type=f"about:blank#{word}",
        title=title,
        status=status,
        detail=masked(detail)[:4000],
        remedy=None if remedy is None else masked(remedy)[:4000],
        request=request,
    )


def _unlike_its_description(error: RequestValidationError, request: str) -> Problem:
    """With where and what, but not with what was given: it may be a secret."""
    faults = [
        Fault(
            where=masked(".".join(str(part)[:100] for part in each["loc"]))[:400], what=masked(str(each["msg"]))[:400]
        )
        for each in error.errors()[:20]
    ]
    detail = "; ".join(f"{fault.where}: {fault.what}" for fault in faults[:3]) or "it is not as described"
    found = _problem(422, "invalid", "The request cannot be right", detail, "see /api/v1/openapi.json", request)
    return found.model_copy(update={"faults": faults})


def answered(error: Exception, request: str) -> Response:
    problem, headers = problem_of(error, request)
    return Response(problem.model_dump_json(), problem.status, headers, MEDIA_TYPE)


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route: its own problems, and those that every route has."""
    titles = {status: title for _, status, _, title in reversed(_KINDS)} | {
        413: "The body is too large",
        415: "Not JSON",
    }
    every = (401, 403, 422, 429, 503, 504)
    return {status: {"model": Problem, "description": titles[status]} for status in sorted({*every, *statuses})}
