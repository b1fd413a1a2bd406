"""`dstream doctor`: what `dstream check` finds, and the commands that correct it. It runs none of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from common.check import NOT_KNOWN, Finding, Fix, Outcome, Tool
from dstream.commands.check import ByStage, document, entry, found_by, line, outcome_of
from dstream.options import DEFAULT, AsJson, Config, Format, Level, LogFormat, LogLevel, Stage, WhichStage
from dstream.printing import printed
from dstream.starting import logged

_INTO = {Tool.SQL: "as an administrator, in the source database:", Tool.SHELL: "in a shell, with the Azure CLI:"}


def doctor(
    config: Config = DEFAULT,
    stage: WhichStage = Stage.BOTH,
    as_json: AsJson = False,
    log_level: LogLevel = Level.INFO,
    log_format: LogFormat = Format.TEXT,
) -> int:
    """Run `check`, and print the commands that correct its findings.

    Runs none of them and changes nothing. The exit status is 1 if a check fails.
    """
    logged(log_level, log_format)
    found = found_by(stage, config)
    return outcome_of(lambda: document(found, _entry) if as_json else list(_as_lines(found)), strict=False)


def _as_lines(stages: ByStage) -> Iterator[Outcome]:
    """Findings that are OK are counted, not shown. The same fix of several findings is shown once."""
    shown, fine = set[Fix](), 0
    for _, findings in stages:
        for finding in findings:
            yield finding.outcome
            if finding.outcome is Outcome.OK:
                fine += 1
                continue
            printed(line(str(finding)))
            for text in _fix_lines(_fix(finding), shown):
                printed(line(text))
            printed("")
    printed(f"{fine} {'check is' if fine == 1 else 'checks are'} ok")


def _fix_lines(fix: Fix, shown: set[Fix]) -> Iterator[str]:
    if fix.tool is None:
        yield f"      no command: {fix.because}"
        return
    if fix in shown:
        yield "      the same commands as above"
        return
    shown.add(fix)
    yield f"      {_INTO[fix.tool]}"
    for command in fix.commands:
        yield from (f"        {part}" for part in command.splitlines())


def _entry(stage: str, finding: Finding) -> dict[str, Any]:
    """As `check --json`, with what corrects it."""
    if finding.outcome is Outcome.OK:
        return {**entry(stage, finding), "fix": None}
    fix = _fix(finding)
    correction = {"tool": fix.tool, "commands": list(fix.commands), "because": fix.because}
    return {**entry(stage, finding), "fix": correction}


def _fix(finding: Finding) -> Fix:
    return finding.fix or NOT_KNOWN
