"""What each of the SDK's errors means to a caller."""

from __future__ import annotations

import logging

import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.servicebus._pyamqp.error import (
    AMQPConnectionError,
    AMQPException,
    AMQPLinkError,
    ErrorCondition,
    MessageException,
    MessageSendFailed,
    TokenAuthFailure,
)
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusCommunicationError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from common.azure_amqp.refusals import Credential
from common.errors import EntityDisabled, EntityUnavailable, LockLost, Throttled, TransientError
from common.servicebus.errors import quiet_sdk, refusal, translate, translated


@pytest.mark.parametrize(
    "error",
    [
        OperationTimeoutError(),
        ServiceBusConnectionError(),
        ServiceBusCommunicationError(),
        ServiceBusServerBusyError(),
        ServiceBusQuotaExceededError(),
        MessagingEntityDisabledError(),
        MessageLockLostError(),
        SessionLockLostError(),
        SessionCannotBeLockedError(),
        ServiceBusError("an internal error", condition=b"amqp:internal-error"),
        AMQPConnectionError(ErrorCondition.SocketError, description="gone"),
        ConnectionRefusedError(111, "Connection refused"),
        ValueError("the handler has already been shutdown"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_time_may_heal_it(error: Exception) -> None:
    with pytest.raises(TransientError, match="sending to orders") as raised, translated("sending to orders"):
        raise error
    assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        ServiceBusConnectionError(message="Can not read frame due to exception: Server unexpectedly closed connection"),
        AMQPConnectionError(ErrorCondition.SocketError, description="gone"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_broken_connection_is_called_so(error: Exception) -> None:
    assert translate(error, "sending to orders").message.startswith("sending to orders: the connection broke (")


def test_a_busy_service_is_told_from_other_faults() -> None:
    with pytest.raises(Throttled, match="sending to orders"), translated("sending to orders"):
        raise ServiceBusServerBusyError


@pytest.mark.parametrize(
    "error",
    [
        MessagingEntityNotFoundError(),
        ServiceBusAuthorizationError(),
        ClientAuthenticationError("refused"),
        ServiceBusError("sessions are required", condition=b"amqp:not-allowed"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_time_heals_nothing_and_a_person_is_told_what_to_do(error: Exception) -> None:
    translation = translate(error, "sending to orders")
    assert isinstance(translation, EntityUnavailable)
    assert translation.hint


def test_an_entity_that_is_switched_off_is_told_from_other_faults() -> None:
    assert isinstance(translate(MessagingEntityDisabledError(), "sending to orders"), EntityDisabled)


@pytest.mark.parametrize(
    "error",
    [
        MessagingEntityNotFoundError(),
        ServiceBusAuthenticationError(error=TokenAuthFailure(404, b"no such entity")),  # type: ignore[no-untyped-call]
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_missing_entity_that_was_used_before_is_said_to_have_been_deleted(error: Exception) -> None:
    first, later = (translate(error, "sending to orders", used_before=before) for before in (False, True))
    for found in (first, later):
        assert (
            "a restart of the router (of the ingester, where no router runs) creates it, and the other one goes on by itself"
            in (found.hint or "")
        )
    assert (first.hint or "").startswith("create the entity")
    assert (later.hint or "").startswith("it was deleted")


def test_a_missing_entity_is_said_to_be_missing_before_anything_else() -> None:
    """The SDK calls the answer an authentication error; its text is of issue 304 of Azure/azure-service-bus."""
    said = b"The messaging entity 'sb://ns.servicebus.windows.net/orders' could not be found. TrackingId:a96_G10, SystemTracker:ns"
    error = ServiceBusAuthenticationError(error=TokenAuthFailure(404, said))  # type: ignore[no-untyped-call]
    told = translate(error, "opening a sender for orders")
    assert told.message.startswith(
        "opening a sender for orders: queue or topic orders does not exist in namespace ns.servicebus.windows.net ("
    )
    assert "TrackingId:a96_G10" in told.message
    assert "uthenti" not in str(told)
    assert isinstance(told, EntityUnavailable)


def test_whoever_is_refused_is_named() -> None:
    inner = TokenAuthFailure(401, b"InvalidSignature: The token has an invalid signature. TrackingId:1")  # type: ignore[no-untyped-call]
    who = Credential("the policy sender of ns", identity=False)
    told = translate(ServiceBusAuthenticationError(error=inner), "opening a sender for orders", who=who)
    assert told.message.startswith(
        "opening a sender for orders: the policy sender of ns is refused: wrong key, or no such policy ("
    )
    assert "CBS" not in told.message


def test_a_refusal_of_another_kind_says_what_is_needed_in_general() -> None:
    inner = TokenAuthFailure(401, b"claim is empty or token is invalid")  # type: ignore[no-untyped-call]
    told = translate(ServiceBusAuthenticationError(error=inner), "opening a sender for orders")
    assert (
        told.message
        == "opening a sender for orders: the key or identity is refused (claim is empty or token is invalid)"
    )
    assert "Send and Listen rights" in (told.hint or "")


def test_a_refused_sign_in_is_permanent_and_says_what_the_service_said() -> None:
    inner = TokenAuthFailure(401, b"The token has an invalid signature.")  # type: ignore[no-untyped-call]  # the SDK's
    translation = translate(ServiceBusAuthenticationError(error=inner), "opening orders")
    assert isinstance(translation, EntityUnavailable)
    assert "invalid signature" in str(translation)


@pytest.mark.parametrize(
    "error",
    [
        ServiceBusAuthorizationError(),
        ServiceBusAuthenticationError(error=TokenAuthFailure(401, b"The token has an invalid signature.")),  # type: ignore[no-untyped-call]
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_right_that_was_there_before_will_be_there_again(error: Exception) -> None:
    first, later = (translate(error, "opening orders", proven=proven) for proven in (False, True))
    assert isinstance(first, EntityUnavailable)
    assert isinstance(later, TransientError)
    assert (later.message, later.hint) == (first.message, f"it worked before, and is tried again: {first.hint}")


def test_a_missing_entity_is_missing_though_it_was_there_before() -> None:
    assert isinstance(translate(MessagingEntityNotFoundError(), "opening orders", proven=True), EntityUnavailable)


def test_a_sign_in_that_was_cut_off_is_not_taken_for_a_refused_one() -> None:
    inner = AMQPConnectionError(ErrorCondition.SocketError, description="Connection reset by peer")
    assert isinstance(translate(ServiceBusAuthenticationError(error=inner), "opening orders"), TransientError)


@pytest.mark.parametrize(
    ("inner", "refused"),
    [
        (MessageSendFailed(ErrorCondition.NotAllowed, description="no such property"), True),
        (MessageException(b"com.microsoft:argument-error", description="no such property"), True),
        (MessageSendFailed(ErrorCondition.ResourceLimitExceeded, description="full"), False),
        (MessageException(b"com.microsoft:server-busy", description="busy"), False),
        (AMQPLinkError(ErrorCondition.NotAllowed, description="nobody sends here"), False),
    ],
    ids=["not allowed", "argument", "full", "busy", "link"],
)
def test_only_a_rejected_delivery_says_something_of_a_message_and_only_with_some_conditions(
    inner: AMQPException, refused: bool
) -> None:
    error = ServiceBusError(str(inner.description), error=inner, condition=inner.condition)
    words = refusal(error)
    assert (words is not None) == refused
    if words is not None:
        assert "no such property" in words


def test_other_errors_pass_untouched() -> None:
    with pytest.raises(ZeroDivisionError), translated("sending to orders"):
        _ = 1 / 0


def test_the_sdk_is_quiet_unless_someone_asked_it_to_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("azure")
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    quiet_sdk()
    assert logger.level == logging.CRITICAL
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    quiet_sdk()
    assert logger.level == logging.DEBUG


@pytest.mark.parametrize("error", [SessionLockLostError(), MessageLockLostError()])
def test_a_lost_lock_is_told_from_other_troubles_that_pass(error: ServiceBusError) -> None:
    assert isinstance(translate(error, "receiving"), LockLost)
