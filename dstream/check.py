"""`dstream check`: the findings of the stages, one line each, and the exit status that they come to."""

from __future__ import annotations

from collections.abc import Iterable

from common.check import Finding, Outcome
from common.telemetry import masked


def report(findings: Iterable[Finding]) -> int:
    """Print each as it comes; 1 when one is a fail, else 0."""
    status = 0
    for finding in findings:
        print(masked(" ".join(str(finding).split("\n"))), flush=True)
        if finding.outcome is Outcome.FAIL:
            status = 1
    return status
