"""The application: routes, errors, its description, and the page beside them."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from common.errors import DStreamError
from desk.console.http import (
    audit,
    configuring,
    dead_letters,
    messages,
    overview,
    session,
    snapshots,
    stream,
    tables,
)
from desk.console.http.gate import Gate
from desk.console.http.problems import MEDIA_TYPE, answered
from desk.console.http.served import Served
from desk.console.refusals import Overdue

PAGE: Final = Path(__file__).parents[1] / "page"
"""The page's files, as they are served."""
_ABOUT: Final = (
    "What `dstream console` sees and does. Names in paths are percent-encoded, with their slashes. Errors are documents of "
    "RFC 9457. A change from a browser needs the header `X-CSRF-Token`; see `session`."
)
_PARTS: Final = (overview, tables, snapshots, messages, dead_letters, configuring, audit, stream, session)


def described_app() -> FastAPI:
    """The routes, without anything behind them: enough for their description."""
    app = _App(
        title="DStream console",
        version="1",
        description=_ABOUT,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    api = APIRouter(prefix="/api/v1")
    for part in _PARTS:
        api.include_router(part.router)
    app.include_router(api)
    for kind in (DStreamError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _answered)
    app.add_route("/healthz", _alive, methods=["GET"], include_in_schema=False)
    app.add_route("/readyz", _alive, methods=["GET"], include_in_schema=False)
    return app


def app_of(served: Served, page: Path = PAGE) -> ASGIApp:
    """What a server serves."""
    app = described_app()
    app.state.served = served
    if page.is_dir():
        mimetypes.add_type("text/javascript", ".js")
        mimetypes.add_type("application/manifest+json", ".webmanifest")
        app.mount("/", StaticFiles(directory=page, html=True), name="page")
    return Gate(app, served)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    served: Served = app.state.served
    served.events.start(served.desk)
    yield
    served.events.stop()


async def _alive(request: Request) -> Response:
    """The console answers. What it knows of stores is no reason to restart it."""
    return PlainTextResponse("ok")


async def _answered(request: Request, error: Exception) -> Response:
    if isinstance(error, Overdue) and request.method in ("GET", "HEAD"):
        error = Overdue(error.message, hint="nothing was changed: ask again, for less or later")
    return answered(error, getattr(request.state, "request_id", "unknown"))


class _App(FastAPI):
    """Its description says of errors what they are: FastAPI takes them for JSON of its own."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            found = super().openapi()
            for path in found["paths"].values():
                for operation in path.values():
                    if "requestBody" in operation:
                        operation["responses"].update(
                            {str(status): _of_body(what) for status, what in _OF_BODIES.items()}
                        )
                    _tidy(operation["responses"])
            for unused in ("HTTPValidationError", "ValidationError"):
                found["components"]["schemas"].pop(unused, None)
        assert self.openapi_schema is not None
        return self.openapi_schema


_OF_BODIES: Final = {400: "Not sent whole", 408: "Sent too slowly", 413: "Too large", 415: "Not JSON"}


def _of_body(what: str) -> dict[str, Any]:
    return {"description": what, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}


def _tidy(responses: dict[str, Any]) -> None:
    for status, response in responses.items():
        content = response.get("content", {})
        if int(status) >= 400 and "application/json" in content:
            content[MEDIA_TYPE] = content.pop("application/json")
        elif "text/event-stream" in content:
            content.pop("application/json", None)
