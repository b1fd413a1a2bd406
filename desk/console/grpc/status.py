"""From errors to status codes of gRPC, with the remedy: in the text for people, and as google.rpc.ErrorInfo for programs. No value of a row and
no secret: both are left out where errors are made."""

from __future__ import annotations

import re
from collections.abc import Sequence

import grpc
from google.rpc import error_details_pb2, status_pb2

from common.errors import (
    ConfigurationError,
    DStreamError,
    LeaseLost,
    PermanentError,
    Stopped,
    Throttled,
    TransientError,
    Unfit,
    unforeseen,
)
from common.observability.logs import masked
from desk.console.refusals import Missing, NotAllowed, Overdue, TooMany, Unauthenticated
from desk.desk import Conflict, NotFound

DETAILS = "grpc-status-details-bin"
DOMAIN = "dstream"
LONGEST = 1200
"""Bytes of a text: headers of HTTP/2 are refused by clients from 8 KiB on, and each byte may be written as three."""

_CODES: Sequence[tuple[type[DStreamError], grpc.StatusCode]] = (
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (NotAllowed, grpc.StatusCode.PERMISSION_DENIED),
    (Missing, grpc.StatusCode.UNIMPLEMENTED),
    (TooMany, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Overdue, grpc.StatusCode.DEADLINE_EXCEEDED),
    (ConfigurationError, grpc.StatusCode.INVALID_ARGUMENT),
    (Unfit, grpc.StatusCode.INVALID_ARGUMENT),
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (Conflict, grpc.StatusCode.FAILED_PRECONDITION),
    (Throttled, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (LeaseLost, grpc.StatusCode.ABORTED),
    (Stopped, grpc.StatusCode.UNAVAILABLE),
    (TransientError, grpc.StatusCode.UNAVAILABLE),
    (PermanentError, grpc.StatusCode.FAILED_PRECONDITION),
)
"""The first that fits."""


def code(error: Exception) -> grpc.StatusCode:
    return next((found for kind, found in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def text(error: Exception) -> str:
    return _cut(masked(str(error) if isinstance(error, DStreamError) else unforeseen(error)))


def reason(error: Exception) -> str:
    """As `NOT_FOUND` of NotFound: what a program compares."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).upper()


def details(error: Exception) -> bytes:
    """A google.rpc.Status, as clients of gRPC decode it."""
    info = error_details_pb2.ErrorInfo(reason=reason(error), domain=DOMAIN)
    if isinstance(error, DStreamError) and error.hint:
        info.metadata["remedy"] = _cut(masked(error.hint))
    number, _ = code(error).value
    found = status_pb2.Status(code=number, message=text(error))
    found.details.add().Pack(info)
    if isinstance(error, TooMany):
        pause = error_details_pb2.RetryInfo()
        pause.retry_delay.FromMilliseconds(round(error.after * 1000))
        found.details.add().Pack(pause)
    return bytes(found.SerializeToString())


def _cut(text: str) -> str:
    raw = text.encode("utf-8", "replace")
    return raw.decode() if len(raw) <= LONGEST else raw[: LONGEST - 4].decode("utf-8", "ignore") + " ..."
