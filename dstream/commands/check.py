"""`dstream check`: prints what the stages find, as lines or as one JSON document, and derives the exit status."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from common.check import BY_EDITING, Finding, Outcome, remarked, warn
from common.errors import ConfigurationError, DStreamError
from dstream.options import DEFAULT, AsJson, Config, Format, Level, LogFormat, LogLevel, Stage, WhichStage
from dstream.printing import NotPrinted, print_document, printed
from dstream.starting import imported, logged, of_stages

if TYPE_CHECKING:
    from common.config.settings import Remark

ByStage = Iterable[tuple[str, Iterable[Finding]]]
_WORST_FIRST = (Outcome.FAIL, Outcome.WARN, Outcome.OK)


def check(
    config: Config = DEFAULT,
    stage: WhichStage = Stage.BOTH,
    as_json: AsJson = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for a warning, too.")] = False,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Check whether the services can run, one line a check.

    Connects to everything and changes nothing. The exit status is 1 if a check fails.
    """
    logged(log_level, log_format)
    return report(found_by(stage, config), as_json=as_json, strict=strict)


def found_by(stage: Stage, config: Path) -> ByStage:
    """What the stages find, as they find it. Raises ConfigurationError before anything is looked at."""
    ingester, router = of_stages(stage, config)
    settings = {name: given for name, given in (("ingester", ingester), ("router", router)) if given is not None}
    modules = {name: imported(f"{name}.check") for name in settings}
    older = remarked(_older_blocks(config)) if "router" in settings else ()
    found = ((name, modules[name].findings(_with_matches(given, ingester))) for name, given in settings.items())
    beside = [] if ingester is None or router is None else [("router", _beside_each_other(ingester, router))]
    return chain([("router", older)] if older else [], found, beside)


def _with_matches(settings: Any, ingester: Any) -> Any:
    """The router's settings, with the topics of the tables that patterns match now; the ingester's findings say why they are not known."""
    if ingester is None or settings is ingester or not settings.selection.patterns:
        return settings
    try:
        return settings.with_tables(imported("ingester.commands.stores").with_matches(ingester).tables)
    except DStreamError:
        return settings


def _older_blocks(config: Path) -> list[Remark]:
    """Of the router: the ingester's block has one name. A file that has gone meanwhile has none."""
    from dstream.config import older_blocks

    try:
        return older_blocks(config, os.environ)
    except ConfigurationError:
        return []


def _beside_each_other(ingester: Any, router: Any) -> Iterator[Finding]:
    """What keeps `dstream server` from running both; each stage alone may run."""
    from dstream.config import one_port_for_both

    text = one_port_for_both(ingester, router)
    if text is not None:
        hint = "give them different ports; nothing has to change where each stage is a service with an address of its own, as in pods"
        yield warn("health", text, hint, fix=BY_EDITING)


def report(stages: ByStage, *, as_json: bool = False, strict: bool = False) -> int:
    """Print what each stage finds: lines as they come, or one document at the end. 1 for a failed check, or with `strict` for a warning.

    When nobody reads any more (`dstream check | head`), it stops looking and returns 1: the rest is unknown.
    """
    return outcome_of(lambda: list(_as_json(stages) if as_json else _as_lines(stages)), strict=strict)


def outcome_of(look: Callable[[], Sequence[Outcome]], *, strict: bool) -> int:
    """The exit status of what was printed, or could not be."""
    try:
        outcomes = look()
    except NotPrinted as error:
        if error.reader_gone():
            return 1
        raise
    return int(Outcome.FAIL in outcomes or (strict and Outcome.WARN in outcomes))


def _as_lines(stages: ByStage) -> Iterator[Outcome]:
    for _, findings in stages:
        for finding in findings:
            printed(line(str(finding)))
            yield finding.outcome


def _as_json(stages: ByStage) -> list[Outcome]:
    return document(stages, entry)


def document(stages: ByStage, entered: Callable[[str, Finding], Mapping[str, Any]]) -> list[Outcome]:
    """Print everything as one document. Its keys are documented (docs/install.md) and stay. `entered`: one finding of a stage."""
    found = [(stage, finding) for stage, findings in stages for finding in findings]
    outcomes = [finding.outcome for _, finding in found]
    worst = next((each for each in _WORST_FIRST if each in outcomes), Outcome.OK)
    print_document({"outcome": worst, "findings": [entered(stage, finding) for stage, finding in found]})
    return outcomes


def entry(stage: str, finding: Finding) -> dict[str, Any]:
    """A finding in the document."""
    return {
        "stage": stage,
        "outcome": finding.outcome,
        "subject": finding.subject,
        "text": line(finding.text),
        "remedy": None if finding.hint is None else line(finding.hint),
    }


def line(text: str) -> str:
    """`text` in one line, without secrets."""
    from common.observability.logs import masked

    return masked(" ".join(text.split("\n")))
