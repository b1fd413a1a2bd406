"""How long a trouble lasts until its alert fires: `for` of the shipped rules. An alert is named from the beginning, not as if it had fired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SECONDS: Final[Mapping[str, int]] = {
    "DStreamNotScraped": 900,
    "DStreamRouterDown": 300,
    "DStreamRestarts": 0,
    "DStreamSqlServerUnreachable": 300,
    "DStreamQueueRefuses": 300,
    "DStreamIngesterNotReady": 300,
    "DStreamTableStopped": 60,
    "DStreamTableAbsent": 900,
    "DStreamTablePaused": 14400,
    "DStreamTableWithoutOwner": 600,
    "DStreamLagHigh": 300,
    "DStreamHeadroomLow": 300,
    "DStreamHeadroomNearlyGone": 60,
    "DStreamChangesLost": 0,
    "DStreamCaptureStopped": 300,
    "DStreamCaptureLagging": 1800,
    "DStreamRouterNotReady": 600,
    "DStreamTopicUnavailable": 300,
    "DStreamSessionsStopped": 60,
    "DStreamOutputBehind": 900,
    "DStreamQueueGrows": 1800,
    "DStreamDeadLettersWait": 3600,
    "DStreamEntityFilling": 600,
    "DStreamEntityNearlyFull": 120,
}


def after(alert: str | None) -> int | None:
    """In seconds; 0 for one that fires at once."""
    return None if alert is None else SECONDS[alert]
