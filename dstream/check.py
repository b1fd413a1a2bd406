"""`dstream check`: the findings of the stages as lines or as one JSON document, and the exit status that they come to."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from common.check import Finding, Outcome
from common.observability.logs import masked

ByStage = Iterable[tuple[str, Iterable[Finding]]]
_WORST_FIRST = (Outcome.FAIL, Outcome.WARN, Outcome.OK)


def report(stages: ByStage, *, as_json: bool = False, strict: bool = False) -> int:
    """Print what each stage finds: lines as they come, or one document at the end; 1 when there is a fail, or with `strict` a warning.

    Where nobody reads on (`dstream check | head`), the rest is not looked for, and the status is 1: it is not known what else there is.
    """
    try:
        told = list(_as_json(stages) if as_json else _as_lines(stages))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what Python writes as it ends goes there
        return 1
    return int(Outcome.FAIL in told or (strict and Outcome.WARN in told))


def _as_lines(stages: ByStage) -> Iterator[Outcome]:
    for _, findings in stages:
        for finding in findings:
            print(_line(str(finding)), flush=True)
            yield finding.outcome


def _as_json(stages: ByStage) -> list[Outcome]:
    """`docs/install.md` says what the keys mean; they stay."""
    found = [(stage, finding) for stage, findings in stages for finding in findings]
    outcomes = [finding.outcome for _, finding in found]
    worst = next((each for each in _WORST_FIRST if each in outcomes), Outcome.OK)
    document = {"outcome": worst, "findings": [_entry(stage, finding) for stage, finding in found]}
    print(masked(json.dumps(document, indent=2, ensure_ascii=False)), flush=True)
    return outcomes


def _entry(stage: str, finding: Finding) -> dict[str, Any]:
    hint = None if finding.hint is None else _line(finding.hint)
    return {
        "stage": stage,
        "outcome": finding.outcome,
        "subject": finding.subject,
        "text": _line(finding.text),
        "remedy": hint,
    }


def _line(text: str) -> str:
    return masked(" ".join(text.split("\n")))
