"""What is special about blob leases: what Azure's errors mean, epochs in the metadata, the container, the identity."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from azure.core.credentials import AccessToken
from azure.storage.blob import BlobLeaseClient, BlobServiceClient, ContainerClient

from common.clock import unix
from common.errors import ConfigurationError, DStreamError, LeaseLost, PermanentError, TransientError
from ingester.azure_blob.locks import AzureBlobLocks, connect
from ingester.local.locks import LocalLocks
from tests.azurite.proxy import Answer, Proxy
from tests.azurite.server import Azurite, connection_string, missing
from tests.contracts.locks.conftest import SHORTEST, Clock, blob_locks

TABLE = "server/database/dbo.Persons.lock"


@pytest.fixture(scope="module")
def azurite() -> Iterator[Azurite]:
    if reason := missing():
        pytest.skip(reason)
    with Azurite() as running:
        yield running


@pytest.fixture
def proxy(azurite: Azurite) -> Iterator[Proxy]:
    with Proxy(azurite.port) as running:
        yield running


@pytest.fixture
def container(azurite: Azurite) -> Iterator[ContainerClient]:
    """The container that the locks of a test are kept in, seen past the proxy."""
    with BlobServiceClient.from_connection_string(connection_string(azurite.port)) as service:
        yield service.get_container_client(f"locks-{uuid4().hex[:12]}")


@pytest.fixture
def locks(proxy: Proxy, container: ContainerClient) -> Iterator[AzureBlobLocks]:
    made = blob_locks(connection_string(proxy.port), container.container_name, Clock())
    yield made
    made.close()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(500, "InternalError"),
        Answer(500, "OperationTimedOut"),
        Answer(503, "ServerBusy"),
        Answer(429, "TooManyRequests"),
        Answer(408),
        Answer(502),
        Answer(None),
    ],
)
def test_a_passing_failure_to_renew_takes_nothing_away(locks: AzureBlobLocks, proxy: Proxy, answer: Answer) -> None:
    lease = locks.acquire(TABLE)
    assert lease is not None
    proxy.answer = answer
    with pytest.raises(TransientError, match=r"renewing the lock .*dbo\.Persons\.lock"):
        locks.renew(lease)
    with pytest.raises(TransientError):
        locks.held([TABLE])
    proxy.answer = None
    assert locks.renew(lease).epoch == lease.epoch


def test_a_request_that_is_not_answered_is_sent_once_and_given_up_soon(locks: AzureBlobLocks, proxy: Proxy) -> None:
    """The SDK's own retries would go on for longer than a lease lasts."""
    lease = locks.acquire(TABLE)
    assert lease is not None
    proxy.answer = Answer(None)
    proxy.seen.clear()
    with pytest.raises(TransientError):
        locks.renew(lease)
    assert len(proxy.seen) == 1


@pytest.mark.parametrize("code", ["AuthenticationFailed", "AuthorizationPermissionMismatch", "AccountIsDisabled"])
def test_a_refusal_is_final_and_says_what_is_missing(locks: AzureBlobLocks, proxy: Proxy, code: str) -> None:
    lease = locks.acquire(TABLE)
    assert lease is not None
    proxy.answer = Answer(403, code)
    for ask in (lambda: locks.renew(lease), lambda: locks.acquire("other.lock"), lambda: locks.held([TABLE])):
        with pytest.raises(PermanentError, match=code) as raised:
            ask()
        assert "Storage Blob Data Contributor" in str(raised.value)


def test_a_broken_lease_is_lost(locks: AzureBlobLocks, container: ContainerClient) -> None:
    lease = locks.acquire(TABLE)
    assert lease is not None
    BlobLeaseClient(container.get_blob_client(TABLE)).break_lease(0)
    with pytest.raises(LeaseLost, match="LeaseIsBrokenAndCannotBeRenewed"):
        locks.renew(lease)
    assert locks.acquire(TABLE) is not None


def test_a_deleted_container_is_a_lost_lease_and_made_again(locks: AzureBlobLocks, container: ContainerClient) -> None:
    lease = locks.acquire(TABLE)
    assert lease is not None
    container.delete_container()
    with pytest.raises(LeaseLost):
        locks.renew(lease)
    assert locks.held([TABLE]) == frozenset()
    again = locks.acquire(TABLE)
    assert again is not None
    assert again.epoch > lease.epoch  # although the metadata is gone


def test_a_container_that_may_not_be_made_is_named_with_the_missing_right(
    locks: AzureBlobLocks, proxy: Proxy, container: ContainerClient
) -> None:
    proxy.answer, proxy.only = Answer(403, "AuthorizationPermissionMismatch"), "PUT"
    with pytest.raises(PermanentError, match=f"creating container '{container.container_name}'") as raised:
        locks.ensure()
    assert "create it, or grant the right to" in (raised.value.hint or "")


def test_a_signature_for_the_container_alone_is_enough(locks: AzureBlobLocks, proxy: Proxy) -> None:
    locks.ensure()
    proxy.answer, proxy.only = Answer(403, "AuthorizationResourceTypeMismatch"), "?restype=container HTTP"
    proxy.only = "GET"
    locks.ensure()


def test_an_acquisition_whose_answer_was_lost_can_be_had_at_once(locks: AzureBlobLocks, proxy: Proxy) -> None:
    first = locks.acquire(TABLE)
    assert first is not None
    locks.release(first)
    proxy.answer, proxy.only = Answer(None, after=True), "comp=lease"
    with pytest.raises(TransientError):
        locks.acquire(TABLE)
    proxy.answer = None
    lease = locks.acquire(TABLE)
    assert lease is not None
    assert lease.epoch > first.epoch


def test_a_lock_whose_epoch_cannot_be_raised_is_given_back(
    locks: AzureBlobLocks, proxy: Proxy, azurite: Azurite, container: ContainerClient
) -> None:
    proxy.answer, proxy.only = Answer(503, "ServerBusy"), "comp=metadata"
    with pytest.raises(TransientError):
        locks.acquire(TABLE)
    standby = blob_locks(connection_string(azurite.port), container.container_name, Clock())
    assert standby.acquire(TABLE) is not None
    standby.close()


def test_the_epoch_and_the_owner_are_seen_in_the_metadata_beside_what_was_there(
    locks: AzureBlobLocks, container: ContainerClient
) -> None:
    locks.ensure()
    blob = container.get_blob_client(TABLE)
    far_ahead = 10**15
    blob.upload_blob(b"", metadata={"epoch": str(far_ahead), "note": "ours"})
    lease = locks.acquire(TABLE)
    assert lease is not None
    assert lease.epoch == far_ahead + 1
    assert blob.get_blob_properties().metadata == {
        "epoch": str(lease.epoch),
        "owner": lease.owner,
        "note": "ours",
    }


def test_an_epoch_that_is_no_number_is_refused_with_the_remedy(
    locks: AzureBlobLocks, container: ContainerClient
) -> None:
    locks.ensure()
    container.get_blob_client(TABLE).upload_blob(b"", metadata={"epoch": "seven"})
    with pytest.raises(PermanentError, match="'seven', is not a number"):
        locks.acquire(TABLE)
    assert locks.held([TABLE]) == frozenset()


def test_who_took_a_lost_lock_is_said(
    locks: AzureBlobLocks, container: ContainerClient, monkeypatch: pytest.MonkeyPatch, azurite: Azurite
) -> None:
    lease = locks.acquire(TABLE)
    assert lease is not None
    BlobLeaseClient(container.get_blob_client(TABLE)).break_lease(0)
    monkeypatch.setattr("ingester.azure_blob.locks.this_owner", lambda: "other-machine:17")
    other = blob_locks(connection_string(azurite.port), container.container_name, Clock())
    won = other.acquire(TABLE)
    assert won is not None
    with pytest.raises(LeaseLost, match=rf"other-machine:17 has taken it \(epoch {won.epoch}\)"):
        locks.renew(lease)
    other.close()


def test_a_lease_counts_as_ended_before_it_ends_there(locks: AzureBlobLocks) -> None:
    """Counted from before the request: what the request took is taken off."""
    clock = Clock()
    locks._clock = clock
    before = clock()
    lease = locks.acquire(TABLE)
    assert lease is not None
    assert lease.ends_at is not None
    assert lease.ends_at < before + SHORTEST - 1


def test_the_kind_of_lock_can_be_changed_in_a_running_installation(locks: AzureBlobLocks) -> None:
    before = LocalLocks(unix).acquire(TABLE)
    time.sleep(0.002)
    lease = locks.acquire(TABLE)
    time.sleep(0.002)
    after = LocalLocks(unix).acquire(TABLE)
    assert before is not None
    assert lease is not None
    assert after is not None
    assert before.epoch < lease.epoch < after.epoch


@pytest.mark.parametrize("text", ["", "nonsense", "AccountKey=abc"])
def test_what_is_no_connection_string_is_told_without_quoting_it(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"ingester\.locks\.connection_string") as raised:
        connect(connection_string=text, account_url=None, seconds=6)
    assert not text or text not in str(raised.value)


def test_a_key_that_is_no_key_is_refused(azurite: Azurite) -> None:
    text = connection_string(azurite.port).replace("AccountKey=Eby", "AccountKey=!!")
    locks = blob_locks(text, "locks", Clock())
    with pytest.raises(PermanentError, match="looking for container 'locks'"):
        locks.ensure()
    locks.close()


class StandIn:
    """A credential that counts what it is asked for."""

    fail: Exception | None = None
    asked: tuple[str, ...] = ()

    def __init__(self, **options: Any) -> None:
        """Takes any bounds."""

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        StandIn.asked = scopes
        if StandIn.fail is not None:
            raise StandIn.fail
        return AccessToken("token", int(time.time()) + 3600)

    def close(self) -> None:
        """Nothing to close."""


def test_with_an_account_url_the_identity_is_the_environments_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from azure.core.exceptions import ClientAuthenticationError

    monkeypatch.setitem(sys.modules, "azure.identity", SimpleNamespace(DefaultAzureCredential=StandIn))
    StandIn.fail = ClientAuthenticationError("no managed identity here")
    service = connect(connection_string=None, account_url="https://account.invalid", seconds=6)
    locks = AzureBlobLocks(service, "locks", lease_seconds=SHORTEST)
    with pytest.raises(DStreamError, match="asking for a token") as raised:
        locks.ensure()
    assert isinstance(raised.value, PermanentError)
    assert "Storage Blob Data Contributor" in str(raised.value)
    assert StandIn.asked == ("https://storage.azure.com/.default",)
    locks.close()


def test_a_token_that_does_not_come_holds_up_a_request_no_longer_than_an_answer_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The renewals of all leases wait for the same token; a lease lasts a minute."""
    release = threading.Event()
    monkeypatch.setitem(sys.modules, "azure.identity", SimpleNamespace(DefaultAzureCredential=StandIn))
    monkeypatch.setattr(StandIn, "get_token", lambda self, *scopes, **options: release.wait(60))
    locks = AzureBlobLocks(connect(connection_string=None, account_url="https://account.invalid", seconds=0.1), "locks")
    try:
        with pytest.raises(TransientError, match=r"asking for a token .* took more than 1 s"):
            locks.held([TABLE])
    finally:
        release.set()
        locks.close()
