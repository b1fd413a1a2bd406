"""Routes of the configuration: sources and outputs, changed while both stages run. `ETag` and `If-Match` are its revision."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Header, Query
from pydantic import Field, StrictBool
from starlette.responses import Response

from common.errors import ConfigurationError
from desk.console.http.names import CONVERTOR
from desk.console.http.problems import described
from desk.console.http.served import Asked, At, By, Name
from desk.documents.configuring import Configuration, Edit, Output, OutputOrder, Source, SourceOrder
from desk.documents.shape import Document, Page, Reason

router = APIRouter(tags=["configuration"])
_SOURCE, _OUTPUT = f"/sources/{{name:{CONVERTOR}}}", f"/outputs/{{name:{CONVERTOR}}}"

IfMatch = Annotated[
    str | None,
    Header(
        max_length=200,
        description="The revision that was seen, as in `ETag`: another one is a conflict. Without it, any.",
    ),
]


class RemovalAsked(Asked):
    dry_run: bool = Field(default=True, description="Show what it would mean, and change nothing.")
    reason: Reason | None = None


class UndoOrder(Document):
    dry_run: StrictBool = True
    reason: Reason | None = None


def revision_of(if_match: str | None) -> str | None:
    """Raises ConfigurationError for what is no entity tag."""
    given = (if_match or "").strip().removeprefix("W/")
    if not given or given == "*":
        return None
    if given.count('"') not in (0, 2) or "," in given:
        raise ConfigurationError(["If-Match: it is not one entity tag"], hint="give ETag of GET configuration")
    return given.strip('"')


def _tag(found: Configuration) -> Mapping[str, str]:
    return {"etag": f'"{found.revision}"'}


def _edit_tag(found: Edit) -> Mapping[str, str]:
    return {"etag": f'"{found.revision}"'} if found.applied else {}


@router.get("/configuration", response_model=Configuration, responses=described(501, 502))
async def configuration(at: At) -> Response:
    """The configuration as it is, and its last changes."""
    return await at.document("configuring", at.desk.configuring.configuration, headers=_tag)


@router.post("/configuration/undo", response_model=Edit, responses=described(404, 409, 501, 502))
async def undo(at: At, by: By, order: UndoOrder, if_match: IfMatch = None) -> Response:
    """Take the last change back, as it was seen: `If-Match` must name a revision. A dry run unless `dry_run` is false."""
    revision = revision_of(if_match)
    if revision is None:
        raise ConfigurationError(
            ["If-Match: an undo must name the revision that was seen, because it undoes the last change of anybody"],
            hint="give ETag of GET configuration",
        )
    return await at.document(
        "configuring",
        at.desk.configuring.undo,
        revision,
        by,
        dry_run=order.dry_run,
        reason=order.reason,
        headers=_edit_tag,
    )


@router.get("/sources", response_model=Page[Source], responses=described(501, 502))
async def sources(at: At) -> Response:
    """Entries of `tables`, with what their overrides set."""
    return await at.items("configuring", Source, at.desk.configuring.sources)


@router.post("/sources", response_model=Edit, responses=described(404, 409, 501, 502))
async def add_source(at: At, by: By, order: SourceOrder, if_match: IfMatch = None) -> Response:
    """Add a table, a pattern or an exclusion. A dry run unless `dry_run` is false."""
    return await _put_source(at, by, order, if_match, new=True)


@router.put(_SOURCE, response_model=Edit, responses=described(404, 409, 501, 502))
async def change_source(at: At, by: By, name: Name, order: SourceOrder, if_match: IfMatch = None) -> Response:
    """Change what a source sets. A dry run unless `dry_run` is false."""
    _same(name, order.name)
    return await _put_source(at, by, order, if_match, new=False)


async def _put_source(at: At, by: By, order: SourceOrder, if_match: str | None, *, new: bool) -> Response:
    return await at.document(
        "configuring", at.desk.configuring.put_source, order, revision_of(if_match), by, new=new, headers=_edit_tag
    )


@router.delete(_SOURCE, response_model=Edit, responses=described(404, 409, 501, 502))
async def remove_source(
    at: At, by: By, name: Name, asked: Annotated[RemovalAsked, Query()], if_match: IfMatch = None
) -> Response:
    """Remove a source. A dry run unless `dry_run` is false."""
    return await at.document(
        "configuring",
        at.desk.configuring.remove_source,
        name,
        revision_of(if_match),
        by,
        dry_run=asked.dry_run,
        reason=asked.reason,
        headers=_edit_tag,
    )


@router.get("/outputs", response_model=Page[Output], responses=described(501, 502))
async def outputs(at: At) -> Response:
    """The default output and further ones, with the routes that name them."""
    return await at.items("configuring", Output, at.desk.configuring.outputs)


@router.post("/outputs", response_model=Edit, responses=described(404, 409, 501, 502))
async def add_output(at: At, by: By, order: OutputOrder, if_match: IfMatch = None) -> Response:
    """Add an output. A dry run unless `dry_run` is false."""
    return await _put_output(at, by, order, if_match, new=True)


@router.put(_OUTPUT, response_model=Edit, responses=described(404, 409, 501, 502))
async def change_output(at: At, by: By, name: Name, order: OutputOrder, if_match: IfMatch = None) -> Response:
    """Change what an output sets. A dry run unless `dry_run` is false."""
    _same(name, order.name)
    return await _put_output(at, by, order, if_match, new=False)


async def _put_output(at: At, by: By, order: OutputOrder, if_match: str | None, *, new: bool) -> Response:
    return await at.document(
        "configuring", at.desk.configuring.put_output, order, revision_of(if_match), by, new=new, headers=_edit_tag
    )


@router.delete(_OUTPUT, response_model=Edit, responses=described(404, 409, 501, 502))
async def remove_output(
    at: At, by: By, name: Name, asked: Annotated[RemovalAsked, Query()], if_match: IfMatch = None
) -> Response:
    """Remove an output. A dry run unless `dry_run` is false."""
    return await at.document(
        "configuring",
        at.desk.configuring.remove_output,
        name,
        revision_of(if_match),
        by,
        dry_run=asked.dry_run,
        reason=asked.reason,
        headers=_edit_tag,
    )


def _same(path: str, body: str) -> None:
    if path != body:
        raise ConfigurationError(["name: it is another one than in the path"], hint="give the same name in both")
