"""Translates the SDK's exceptions into DStream's; the one place that knows which of them are transient. Never shows a secret.

Kinds of errors: https://learn.microsoft.com/azure/service-bus-messaging/service-bus-messaging-exceptions-latest
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus._pyamqp.error import (  # what is met below the public API
    AMQPConnectionError,
    AMQPException,
    MessageException,
)
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusCommunicationError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
    SessionLockLostError,
)

from common.azure_amqp.refusals import UNKNOWN, Credential, Refusal, missing, read
from common.errors import (
    DStreamError,
    EntityDisabled,
    EntityMissing,
    EntityUnavailable,
    LockLost,
    PermanentError,
    Throttled,
    TransientError,
)

_PERMANENT_CONDITIONS = ("amqp:not-allowed", "amqp:not-implemented", "amqp:invalid-field", "amqp:decode-error")
"""Conditions for a request that is itself wrong (AMQP 1.0, 2.8.15); the SDK has no class for them."""

_OF_A_MESSAGE = (*_PERMANENT_CONDITIONS, "com.microsoft:argument-error", "com.microsoft:argument-out-of-range")
"""Conditions of a rejected send that concern what was sent: Microsoft's clients treat them as errors of the caller, which no retry helps
(https://learn.microsoft.com/azure/service-bus-messaging/service-bus-messaging-exceptions-latest). All others concern the entity, the right
to use it, or the moment (not-found, unauthorized-access, entity-disabled, resource-limit-exceeded, server-busy, timeout, ...)."""

_RIGHTS = (
    "check the policy's name and key, and that it has the Send and Listen rights it needs here; or, where an identity is used, that it has "
    "the roles Azure Service Bus Data Sender and Azure Service Bus Data Receiver (an assignment takes minutes to hold)"
)

_CREATE = (
    'create the entity, or correct its name in the configuration; with provision = "create" a restart of the router '
    "(of the ingester, where no router runs) creates it, and the other one goes on by itself; "
    "that takes a policy with the Manage right (an identity: the role Azure Service Bus Data Owner)"
)

_DELETED = (
    'it was deleted while it was in use: create it again with the settings that it had; with provision = "create" a restart of the router '
    "(of the ingester, where no router runs) creates it, and the other one goes on by itself. The messages "
    'that it held are lost: "When a queue was deleted" in docs/fail.md says how to send them again'
)

_REACH = (
    'check that the namespace\'s address answers AMQP over TLS (port 5671, or 443 with transport = "websocket"), and that no firewall or proxy '
    "on the way ends connections"
)

_SESSIONS = (
    'queue.ordering = "table" and "key" need a queue with sessions, "none" needs one without: set ordering to match, or delete the queue once it is '
    "empty and create it again (whether it has sessions is fixed when it is created)"
)

_REFUSED = (ServiceBusAuthenticationError, ServiceBusAuthorizationError, ClientAuthenticationError)

_BROKEN = (ServiceBusConnectionError, ServiceBusCommunicationError, AMQPConnectionError)

_HINTS: tuple[tuple[tuple[type[Exception], ...], type[TransientError | PermanentError], str], ...] = (
    (
        (ServiceBusQuotaExceededError,),
        TransientError,
        "the entity is full, or has too many connections: read or delete subscriptions that nobody reads",
    ),
    ((MessagingEntityDisabledError,), EntityDisabled, "enable the entity in the portal"),
    (
        (SessionLockLostError, MessageLockLostError),
        LockLost,
        "if this repeats, the topics take longer than the queue's lock lasts: lengthen it (LockDuration, at most 5 minutes)",
    ),
    ((ServiceBusServerBusyError,), Throttled, "the namespace throttles: spread the load or add messaging units"),
)


def quiet_sdk() -> None:
    """Raise the SDK's log level, as it also logs every fault that it raises; a level that someone set on purpose is left alone."""
    logger = logging.getLogger("azure")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)


def translate(
    error: Exception, doing: str, *, who: Credential = UNKNOWN, used_before: bool = False, proven: bool = False
) -> DStreamError:
    """What `error` means to a caller; `doing` is a participle with facts ("sending to orders"), `who` is the key or identity in use.

    `used_before`: this process has used the entity already, so a missing one was deleted. `proven`: the right to use it existed before, so
    a refusal now (a changed key, a role on its way, a namespace that fails over) is transient.
    """
    inner = getattr(error, "inner_exception", None)
    if isinstance(inner, DStreamError):
        # The identity's own error already says what is wrong; the SDK wraps whatever a credential raises.
        kind_of_inner = TransientError if isinstance(inner, TransientError) else EntityUnavailable
        return kind_of_inner(f"{doing}: {inner.message}", hint=inner.hint)
    status, words = _sign_in(inner)
    if isinstance(error, ServiceBusAuthenticationError) and status is None:
        # The SDK calls it an authentication error too when the connection breaks during the sign-in.
        return TransientError(f"{doing}: {_one_line(error)}", hint=_REACH)
    words = words or _one_line(error)
    if status == 404 or isinstance(error, MessagingEntityNotFoundError):  # with 404 the token is good
        text = f"{doing}: {missing(words)} ({words})"
        return EntityUnavailable(text, hint=_DELETED) if used_before else EntityMissing(text, hint=_CREATE)
    if status is not None or isinstance(error, _REFUSED):
        return _refused(read(words, who) or Refusal(f"{who.name} is refused", _RIGHTS), doing, words, proven=proven)
    if isinstance(error, _BROKEN):
        return TransientError(f"{doing}: the connection broke ({words})", hint=_REACH)
    return _other(error, f"{doing}: {words}")


def _refused(found: Refusal, doing: str, words: str, *, proven: bool) -> DStreamError:
    text = f"{doing}: {found.text} ({words})"
    if proven:
        return TransientError(text, hint=f"it worked before, and is tried again: {found.hint}")
    return EntityUnavailable(text, hint=found.hint)


def _other(error: Exception, text: str) -> DStreamError:
    for classes, kind, hint in _HINTS:
        if isinstance(error, classes):
            return kind(text, hint=hint)
    condition = str(getattr(error, "_condition", None) or "")
    if condition.startswith(_PERMANENT_CONDITIONS) or any(f": {each}" in str(error) for each in _PERMANENT_CONDITIONS):
        return EntityUnavailable(text, hint=_SESSIONS)
    return TransientError(text)


def refusal(error: ServiceBusError) -> str | None:
    """The service's words when it has rejected a message for its content; None for any other error of a send.

    Only the outcome of a delivery counts (AMQP 1.0, 3.4.3: rejected, "invalid and therefore unprocessable"). With the same conditions
    a link is refused or detached, and that concerns the entity.
    """
    condition = str(getattr(error, "_condition", None) or "")
    rejected = isinstance(getattr(error, "inner_exception", None), MessageException)
    return _one_line(error) if rejected and condition in _OF_A_MESSAGE else None


def _sign_in(inner: object) -> tuple[int | None, str]:
    """Status and words of the service when it refused the token (401, 403), or the token is valid and the entity is missing (404).

    The SDK keeps the answer in the inner exception, `inner`, and leaves it out of the message.
    """
    status = getattr(inner, "status_code", None)
    if status not in {401, 403, 404}:
        return None, ""
    described = getattr(inner, "status_description", None)
    words = described.decode(errors="replace") if isinstance(described, bytes) else str(described or "")
    return status, " ".join(words.split()) or f"status {status}"


@contextmanager
def translated(
    doing: str, *, who: Credential = UNKNOWN, used_before: bool = False, proven: bool = False
) -> Iterator[None]:
    """As `translate`: errors of the SDK and of sockets leave as DStreamError with their cause kept; all others pass unchanged."""
    try:
        yield
    except (ServiceBusError, ClientAuthenticationError, AMQPException, OSError) as error:
        raise translate(error, doing, who=who, used_before=used_before, proven=proven) from error
    except ValueError as error:
        # The SDK says "already closed" and "cannot be locked now" with bare ValueErrors.
        raise TransientError(f"{doing}: {_one_line(error)}") from error


@contextmanager
def all_translated(doing: str, *, proven: bool, who: Credential = UNKNOWN) -> Iterator[None]:
    """As `translated`; whatever else the SDK raises concerns one receiver alone as well, and the next may do better."""
    try:
        with translated(doing, who=who, used_before=proven, proven=proven):
            yield
    except DStreamError:
        raise
    except Exception as error:
        raise TransientError(
            f"{doing}: {type(error).__name__} in azure-servicebus: {error}",
            hint="the receiver is opened again; if this repeats, report it with this line",
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
