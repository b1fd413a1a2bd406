"""The configuration: tables and outputs that are added, changed and removed while both stages run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, StrictBool

from desk.documents.shape import Document, Reason


class Source(Document):
    """An entry of `ingester.tables`, with its override if it has one; or an override of a table that only a pattern finds."""

    name: str = Field(max_length=300, description="A table, a pattern, or an exclusion that begins with `!`.")
    kind: Literal["table", "pattern", "exclusion"]
    matches: list[str] = Field(default_factory=list, description="The tables that it means now, where that is known.")
    settings: dict[str, Any] = Field(default_factory=dict, description="What the override sets; secrets are left out.")
    line: int | None = None


class Output(Document):
    """The default output, or an `output` block with a label."""

    name: str = Field(max_length=100, description="`default`, or the label.")
    type: str
    settings: dict[str, Any] = Field(default_factory=dict, description="What the block sets; secrets are left out.")
    routes: list[dict[str, Any]] = Field(default_factory=list, description="The routes that name it.")
    line: int | None = None


class SourceOrder(Document):
    """`settings`: what the override sets from now on; null values are removed from it."""

    name: str = Field(max_length=300)
    settings: dict[str, Any] = Field(default_factory=dict, max_length=100)
    dry_run: StrictBool = True
    reason: Reason | None = None


class OutputOrder(Document):
    """A secret is given as `{"env": "NAME"}`: values of secrets are refused, so that they never enter the file."""

    name: str = Field(max_length=100)
    type: str = Field(max_length=100)
    settings: dict[str, Any] = Field(default_factory=dict, max_length=200)
    routes: list[dict[str, Any]] | None = Field(
        default=None,
        max_length=100,
        description="The routes that name it from now on, as in `Output`; null: they stay as they are. An output that a route names is not removed.",
    )
    dry_run: StrictBool = True
    reason: Reason | None = None


class Edit(Document):
    """What a change of the configuration means. `difference`: as `diff -u` writes it."""

    applied: bool
    dry_run: bool
    revision: str = Field(description="Of the configuration, once this is applied.")
    difference: str
    taken_over: str = Field(description="Which stages take it over, and when.")
    warnings: list[str] = Field(default_factory=list)


class Revision(Document):
    revision: str
    at: str
    by: str
    what: str
    reason: str | None = None


class Configuration(Document):
    """`text`: the file as it is; its secrets come from the environment, and are not in it, or are masked."""

    place: str = Field(description="The file, or the ConfigMap.")
    revision: str
    writable: bool
    why_not: str | None = None
    text: str
    revisions: list[Revision] = Field(
        default_factory=list, description="The newest first; the last change can be undone."
    )
