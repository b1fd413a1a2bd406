"""Errors of the SDK while a person's question is asked. What the SDK has no encoding for is final: no retry makes it fit. Retries nothing itself."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from common.azure_amqp.refusals import Credential
from common.errors import PermanentError, TransientError
from common.servicebus.errors import all_translated

_ENCODER: Final = "azure.servicebus._pyamqp._encode"


@contextmanager
def asking(doing: str, *, who: Credential) -> Iterator[None]:
    """As `all_translated`, and PermanentError where the request itself cannot be written."""
    try:
        with all_translated(doing, proven=False, who=who):
            yield
    except TransientError as error:
        if (why := _unwritable(error.__cause__)) is None:
            raise
        raise PermanentError(
            f"{doing}: AMQP has no encoding for the request ({why})", hint="ask with other values"
        ) from error


def _unwritable(error: BaseException | None) -> str | None:
    """The encoder's words. The SDK wraps them in an error of a broken link."""
    error = getattr(error, "inner_exception", None) or error
    if not isinstance(error, (ValueError, TypeError, OverflowError, struct.error)):
        return None
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return str(error) if at is not None and at.tb_frame.f_globals.get("__name__") == _ENCODER else None
