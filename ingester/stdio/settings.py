"""The host's document to the ingester's settings: the keys of the original tool, and those of the `ingester` block that make sense here.

The queue of such settings is standard output. It is a type of its own, which no file can name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Literal

from pydantic import Field

from common.authorities import fault_of
from common.bus.settings import QueueSettings
from common.config.bind import Document
from common.config.durations import format_duration
from common.config.values import Block, Problem, Value
from common.names import TableName
from ingester.blocks.locks import LockSettings
from ingester.settings import IngesterSettings, PollIntervals, bound_as
from ingester.stdio.document import Places, complaint, member, unusable

NAMED = {"lock_config": "locks"}
"""Keys of the document whose block has another name in a file."""
_INTERVALS = ("poll_interval", "max_poll_interval")
_LEFT_OUT = {"db_type", "locks", "poll_interval_defaults", "queue", "spark", "coalesce", "on_oversize", "transactions"}
"""Settings of the ingester that mean nothing here: there is one kind of database, no Spark, no message that is too large, and no place in a line
for what `transactions` tells of a change."""
_UNLOCKED = "none"
"""The original's type of locks without any."""
GO_SCANNER_BYTES = 65_535
"""What the original's host reads as a line: Go's bufio.Scanner holds 64 KiB, the line's end included
(https://pkg.go.dev/bufio#pkg-constants, MaxScanTokenSize)."""


class StandardOutput(QueueSettings):
    """In the place of the queue. Its order is that of a table: one slice of it at a time."""

    type: Literal["stdout"] = "stdout"
    name: str = "stdout"

    @property
    def where(self) -> str:
        return "standard output"


class ProviderSettings(IngesterSettings):
    """The settings of `dstream provider`."""

    queue: StandardOutput = Field(default_factory=StandardOutput, description="Standard output.")
    max_line_bytes: int = Field(
        default=GO_SCANNER_BYTES,
        ge=1_024,
        le=16_777_216,
        description=(
            "Most bytes of a line, its end included. A single change that needs more has a longer line to itself. The default is what the "
            "original's host can read (64 KiB of Go's bufio.Scanner)."
        ),
    )

    @property
    def reaches(self) -> dict[str, object]:
        """The addresses that a start waits for, for the log."""
        return {"server": self.db.host, "database": self.db.database}

    def interval_of(self, table: TableName) -> str:
        """How often `table` is looked at while it changes, as `metadata.poll_interval` has it."""
        own = {known.name: known.poll_interval for known in self.schedule}
        return format_duration(own.get(table, self.poll_interval_defaults.poll_interval))


def accepted_keys() -> list[str]:
    """The keys of a configuration, sorted."""
    return sorted({*NAMED, *_INTERVALS, *ProviderSettings.model_fields} - _LEFT_OUT)


def settings_of(document: Mapping[str, Any]) -> ProviderSettings:
    """Raises ConfigurationError with every problem, each with its JSON path. What is unusable wherever it stands is told first, and alone."""
    config, path = _configuration(document)
    if wrong := list(unusable(config, path)):
        raise complaint(wrong)
    places = Places()
    problems = [f"{where}: {what}" for where, what in _refused(config, path)]
    root = Block("", 0, [("ingester", 0, _block(config, path, places))])
    bound = bound_as(ProviderSettings, Document("standard input", root, []))
    problems += [_told(problem, places) for problem in bound.problems]
    if bound.value is not None and (fault := _certificate_fault(bound.value)) is not None:
        problems.append(f"{path}.db_connection_string: {fault}")
    if problems or bound.value is None:
        raise complaint(list(dict.fromkeys(problems)))
    value = bound.value
    return value.with_remarks(replace(it, line=0, setting=places.paths[it.line]) for it in value.remarks)


def _configuration(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The configuration and its path. Further keys of the command's envelope belong to the host, and are ignored."""
    if "command" not in document:
        return document, "$"
    if document["command"] != "run":
        raise complaint(
            ['$.command: must be "run"'],
            hint="a provider that reads has no other command: init, plan, status and destroy are for those that write",
        )
    config = document.get("config")
    if not isinstance(config, dict):
        raise complaint(['$.config: must be an object, next to "command"'])
    return config, "$.config"


def _refused(config: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """What a document may not say, although a file may, or nobody."""
    known = accepted_keys()
    for key in config:
        if key not in known:
            near = get_close_matches(key, known, n=1, cutoff=0.7)
            yield member(path, key), "is an unknown key" + (f' (did you mean "{near[0]}"?)' if near else "")
    if not isinstance(config.get("lock_config", {}), dict):
        yield member(path, "lock_config"), "must be an object"
    for where, key, value in _members(config, path):
        if key == "on_filter_error" and value == "dead_letter":
            yield where, 'must be "fail": standard output has no dead-letter queue'


def _members(value: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    """Every member of every object: its path, key and value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield member(path, key), key, item
            yield from _members(item, member(path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _members(item, f"{path}[{at}]")


def _block(config: Mapping[str, Any], path: str, places: Places) -> Block:
    """The `ingester` block that the known keys of a document stand for."""
    plain = {key: config[key] for key in accepted_keys() if key in config and key not in (*NAMED, *_INTERVALS)}
    block = places.block("ingester", plain, ProviderSettings, path)
    block.entries.append(("db_type", block.line, Value(block.line, "sqlserver")))
    if isinstance(locks := config.get("lock_config"), dict):
        block.entries.append(
            ("locks", block.line, places.block("locks", _locks(locks), LockSettings, f"{path}.lock_config"))
        )
    if intervals := {key: config[key] for key in _INTERVALS if key in config}:
        inner = places.block("poll_interval_defaults", intervals, PollIntervals, path)
        block.entries.append(("poll_interval_defaults", block.line, inner))
    return block


def _locks(given: dict[str, Any]) -> dict[str, Any]:
    """The original has a type without locks, whose other keys say nothing: locks of this process alone are the same."""
    return {"type": "local"} if given.get("type") == _UNLOCKED else given


def _certificate_fault(settings: ProviderSettings) -> str | None:
    file = settings.db.options.get("server_certificate")
    if file is None or not settings.db.verified or (fault := fault_of(file)) is None:
        return None
    return f"has certificate={file}, which cannot be used: {fault}; name a PEM file"


_FILE_WORDS = (
    (re.compile(r"^ingester(\.[^\s:]+)*:? "), ""),
    (re.compile(r'\b(block|key) "locks"'), 'key "lock_config"'),
    (re.compile(r'\bblock "'), 'key "'),
    (re.compile(r"is a block: write .*"), "must be an object"),
    (re.compile(r"is a setting, not a block: write .*"), "must not be an object"),
    (re.compile(r"must be a map: .*"), "must be an object"),
    (re.compile(r"\btext in double quotes"), "text"),
    (re.compile(r"(whole number|true or false), without quotes"), r"\1"),
    (re.compile(r", best with \{\{.*?\}\}"), ""),
)
"""What a file's complaint says in the words of a file, and what it says here."""


def _told(problem: Problem, places: Places) -> str:
    text = problem.text
    for words, here in _FILE_WORDS:
        text = words.sub(here, text)
    return f"{places.paths[problem.line]}: {text}"
