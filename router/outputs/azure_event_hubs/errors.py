"""Translates azure-eventhub's exceptions into DStream's. Never shows a secret.

The SDK raises few kinds of its own, without a condition; the AMQP error behind them has the service's own words.
https://learn.microsoft.com/azure/event-hubs/exceptions-dotnet
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from azure.core.exceptions import ClientAuthenticationError
from azure.eventhub._pyamqp.error import AMQPException, MessageException, TokenAuthFailure  # behind the public ones
from azure.eventhub.exceptions import EventHubError

from common.azure_amqp.refusals import Credential, Refusal, read
from common.errors import (
    DStreamError,
    EntityDisabled,
    EntityMissing,
    EntityUnavailable,
    Throttled,
    TransientError,
)

UNKNOWN = "amqp:unknown-error"
"""The SDK's own condition, for whatever it cannot name."""

_TOO_LARGE = "amqp:link:message-size-exceeded"
_OF_AN_EVENT = (
    "amqp:not-allowed",
    "amqp:not-implemented",
    "amqp:invalid-field",
    "amqp:decode-error",
    "com.microsoft:argument-error",
    "com.microsoft:argument-out-of-range",
)
"""Conditions with which the service rejects an event for its own sake. All others concern the hub, the right to it, or the moment."""

_RIGHTS = "check the policy's name and key, and that it has the right Send; or that the identity has the role Azure Event Hubs Data Sender"
_CREATE = (
    "create the event hub: no client that sends can, so DStream does not (dstream plan prints the command), or correct event_hub in the "
    "configuration"
)
_DELETED = "it was deleted while it was in use: create it again; what it held is lost"
_BUSY = (
    "the namespace throttles: add throughput units (az eventhubs namespace update --capacity), or turn on auto-inflate"
)


def quiet_sdk() -> None:
    """Raise the SDK's log level, as it also logs every fault that it raises; a level that someone set on purpose is left alone."""
    logger = logging.getLogger("azure")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)


def behind(error: BaseException) -> BaseException:
    """The error that the SDK has wrapped, or `error` itself. It raises its own `from None`, which leaves the context."""
    seen = set[int]()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        if isinstance(at, (AMQPException, DStreamError)):
            return at
        seen.add(id(at))
        at = at.__cause__ or at.__context__
    return error


def condition_of(error: BaseException) -> str:
    """The AMQP condition of an error from `behind`; "" for none."""
    condition = getattr(error, "condition", None)
    condition = getattr(condition, "value", condition)
    return condition.decode(errors="replace") if isinstance(condition, bytes) else str(condition or "")


def words_of(error: BaseException) -> str:
    """The service's words, on one line."""
    described = getattr(error, "status_description", None) or getattr(error, "description", None) or str(error)
    text = described.decode(errors="replace") if isinstance(described, bytes) else str(described)
    return " ".join(text.split()) or type(error).__name__


def rejected(error: Exception) -> bool:
    """Whether the service has answered what was sent with a refusal, whatever its reason."""
    met = behind(error)
    return isinstance(met, MessageException) and condition_of(met) not in ("", UNKNOWN, "amqp:client-error")


def too_large(error: Exception) -> bool:
    """Whether the service has rejected what was sent for its size."""
    met = behind(error)
    return isinstance(met, MessageException) and condition_of(met) == _TOO_LARGE


def refusal(error: Exception) -> str | None:
    """The service's words when it has rejected what was sent for its content; None for any other error of a send."""
    met = behind(error)
    rejected = isinstance(met, MessageException) and condition_of(met) in _OF_AN_EVENT
    return words_of(met) if rejected else None


def translate(
    error: Exception, doing: str, *, who: Credential, used_before: bool = False, proven: bool = False
) -> DStreamError:
    """What `error` means to a caller; `doing` is a participle with facts ("sending to changes"), `who` is the key or identity in use.

    `used_before`: this process has used the hub already, so a missing one was deleted. `proven`: the right to use it existed before, so
    a refusal now is transient.
    """
    met = behind(error)
    if isinstance(met, DStreamError):
        kind = TransientError if isinstance(met, TransientError) else EntityUnavailable
        return kind(f"{doing}: {met.message}", hint=met.hint)
    condition, words = condition_of(met), words_of(met)
    status = met.status_code if isinstance(met, TokenAuthFailure) else None
    if condition == "amqp:not-found" or status == 404:
        text = f"{doing}: the event hub does not exist ({words})"
        return EntityUnavailable(text, hint=_DELETED) if used_before else EntityMissing(text, hint=_CREATE)
    if condition == "amqp:unauthorized-access" or status in (401, 403) or isinstance(met, ClientAuthenticationError):
        return _refused(read(words, who) or Refusal(f"{who.name} is refused", _RIGHTS), doing, words, proven=proven)
    if condition == "com.microsoft:server-busy":
        return Throttled(f"{doing}: {words}", hint=_BUSY)
    if condition == "com.microsoft:entity-disabled":
        return EntityDisabled(
            f"{doing}: {words}", hint="enable the event hub: az eventhubs eventhub update --status Active"
        )
    if condition == "amqp:resource-limit-exceeded":
        hint = "the namespace has as many connections as its tier allows: stop other clients, or move to a higher tier"
        return TransientError(f"{doing}: {words}", hint=hint)
    return TransientError(f"{doing}: {words}")


def _refused(found: Refusal, doing: str, words: str, *, proven: bool) -> DStreamError:
    text = f"{doing}: {found.text} ({words})"
    if proven:
        return TransientError(text, hint=f"it worked before, and is tried again: {found.hint}")
    return EntityUnavailable(text, hint=found.hint)


@contextmanager
def translated(doing: str, *, who: Credential, used_before: bool = False, proven: bool = False) -> Iterator[None]:
    """As `translate`. Errors that are neither the SDK's nor a socket's pass unchanged."""
    try:
        yield
    except (EventHubError, AMQPException, ClientAuthenticationError, OSError) as error:
        raise translate(error, doing, who=who, used_before=used_before, proven=proven) from error
