"""Locks as leases on blobs, one blob a table. A dead owner's lease runs out by itself; a live owner's is never broken.

A lease begins when the storage account grants it, so not before the request was sent. Here it is counted from that
moment, by the steady clock and less a margin: it ends here before it ends at the account. The epoch is in the blob's
metadata and is raised under the lease.
https://learn.microsoft.com/en-us/rest/api/storageservices/lease-blob
"""

from __future__ import annotations

import posixpath
import threading
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobClient, BlobLeaseClient, BlobServiceClient

from common.azure_blob.connecting import service_of
from common.azure_blob.errors import LISTING_NOT_COVERED, RIGHTS, TAKEN, code_of, status_of, translated
from common.clock import SteadyClock, SteadyTime, UnixClock, steady, unix
from common.errors import DStreamError, LeaseLost, PermanentError
from ingester.locks import Lease, this_owner

LEASE_SECONDS = 60
"""The longest lease that Azure grants, and so how long a dead owner keeps its tables. The shortest is 15."""

_KEY = "ingester.locks.connection_string"

_ENDED_STATUS = {404, 409, 412}
"""Answers to an operation under a lease that this process no longer has, or whose blob was deleted."""


def connect(*, connection_string: str | None, account_url: str | None, seconds: float) -> BlobServiceClient:
    """A client that gives up on a request within `seconds`, and on a token within half of that. Raises ConfigurationError."""
    return service_of(connection_string=connection_string, account_url=account_url, seconds=seconds, setting=_KEY)


class AzureBlobLocks:
    """`lease_seconds`: whole seconds, 15 to 60. `clock`: the steady clock; `now`: Unix time, for epochs."""

    def __init__(
        self,
        service: BlobServiceClient,
        container: str,
        *,
        lease_seconds: int = LEASE_SECONDS,
        clock: SteadyClock = steady,
        now: UnixClock = unix,
    ) -> None:
        self._service = service
        self._container = service.get_container_client(container)
        self._lease_seconds = lease_seconds
        self._margin = margin(lease_seconds)
        self._clock = clock
        self._now = now
        self._owner = this_owner()
        self._ids: dict[str, tuple[Lease, str]] = {}
        self._asked: dict[str, str] = {}
        self._guard = threading.Lock()
        self._proven = False

    @property
    def renew_seconds(self) -> float | None:
        return self._lease_seconds / 3

    def ensure(self) -> None:
        name = self._container.container_name
        with self._translating(f"looking for container {name!r}"):
            try:
                self._container.get_container_properties()
            except ResourceNotFoundError:
                self._create_container()
            except HttpResponseError as error:
                if code_of(error) not in LISTING_NOT_COVERED:
                    raise

    def missing(self) -> bool:
        """Whether the container does not exist yet, as far as this identity may know. Changes nothing."""
        with self._translating(f"looking for container {self._container.container_name!r}"):
            try:
                self._container.get_container_properties()
            except ResourceNotFoundError:
                return True
            except HttpResponseError as error:
                if code_of(error) not in LISTING_NOT_COVERED:
                    raise
        return False

    def acquire(self, name: str) -> Lease | None:
        with self._guard:
            if name in self._ids:
                return None
            # If the answer to an acquisition was lost, asking for the same id again succeeds.
            lease_id = self._asked.setdefault(name, str(uuid.uuid4()))
        with self._translating(f"taking the lock {name}"):
            blob = self._container.get_blob_client(name)
            sent = self._clock()
            if not self._granted(blob, lease_id):
                self._asked.pop(name, None)
                return None
            try:
                epoch = self._raise_epoch(blob, lease_id)
            except (AzureError, DStreamError):
                self._give_back(blob, lease_id)
                raise
        lease = Lease(name, self._owner, epoch, self._ends_at(sent))
        with self._guard:
            self._asked.pop(name, None)
            self._ids[name] = (lease, lease_id)
        return lease

    def renew(self, lease: Lease) -> Lease:
        lease_id = self._id(lease)
        if lease_id is None:
            raise LeaseLost(f"renewing the lock {lease.name}: it was given back")
        blob = self._container.get_blob_client(lease.name)
        sent = self._clock()
        with self._translating(f"renewing the lock {lease.name}"):
            try:
                BlobLeaseClient(blob, lease_id).renew()
            except HttpResponseError as error:
                if status_of(error) not in _ENDED_STATUS:
                    raise
                self._forget(lease)
                raise LeaseLost(
                    f"renewing the lock {lease.name}: the lease has ended ({code_of(error)}){self._holder(blob)}"
                ) from error
        renewed = Lease(lease.name, lease.owner, lease.epoch, self._ends_at(sent))
        with self._guard:
            if self._same(lease):
                self._ids[lease.name] = (renewed, lease_id)
        return renewed

    def release(self, lease: Lease) -> None:
        lease_id = self._id(lease)
        if lease_id is None:
            return
        self._forget(lease)
        with self._translating(f"giving back the lock {lease.name}"):
            try:
                BlobLeaseClient(self._container.get_blob_client(lease.name), lease_id).release()
            except HttpResponseError as error:
                if status_of(error) not in _ENDED_STATUS:
                    raise

    def lost(self, lease: Lease) -> None:
        """The lock itself is sound: its next owner raises the epoch past the newer one, or waits for the clock."""
        self.release(lease)

    def held(self, names: Collection[str]) -> frozenset[str]:
        """Makes one request for up to 5,000 blobs, however many `names` there are."""
        if not names:
            return frozenset()
        with self._translating("looking which locks are free"):
            try:
                listed = list(self._container.list_blobs(name_starts_with=posixpath.commonpath(names)))
            except ResourceNotFoundError:
                return frozenset()
        return frozenset(blob.name for blob in listed if blob.lease.status == "locked") & frozenset(names)

    def close(self) -> None:
        self._service.close()

    def _granted(self, blob: BlobClient, lease_id: str) -> bool:
        """Whether the lease is ours now. Creates the blob and its container if they are missing."""
        try:
            return self._leased(blob, lease_id)
        except ResourceNotFoundError as error:
            if code_of(error) == "ContainerNotFound":
                self._create_container()
            self._create_blob(blob)
        return self._leased(blob, lease_id)

    def _leased(self, blob: BlobClient, lease_id: str) -> bool:
        try:
            blob.acquire_lease(self._lease_seconds, lease_id)
        except HttpResponseError as error:
            if code_of(error) not in TAKEN:
                raise
            return False
        return True

    def _create_blob(self, blob: BlobClient) -> None:
        try:
            blob.upload_blob(b"", overwrite=False)
        except ResourceExistsError:  # another ingester was faster
            return
        except HttpResponseError as error:
            if status_of(error) != 412:  # it exists already, and is leased
                raise

    def _create_container(self) -> None:
        try:
            self._container.create_container()
        except ResourceExistsError as error:
            if code_of(error) != "ContainerAlreadyExists":
                raise
        except HttpResponseError as error:
            if status_of(error) != 403:
                raise
            raise PermanentError(
                f"creating container {self._container.container_name!r}: the storage account answered 403 {code_of(error)}",
                hint=f"create it, or grant the right to: {RIGHTS}",
            ) from error

    def _raise_epoch(self, blob: BlobClient, lease_id: str) -> int:
        """An epoch above all earlier ones of this blob and of other kinds of locks, which are milliseconds too."""
        metadata = dict(blob.get_blob_properties(lease=lease_id).metadata)
        stored = metadata.get("epoch", "0")
        if not stored.isdecimal():
            raise PermanentError(
                f"taking the lock {blob.blob_name}: the epoch in its metadata, {stored!r}, is not a number",
                hint="delete the blob; it is created again",
            )
        epoch = max(int(self._now() * 1000), int(stored) + 1)
        blob.set_blob_metadata(metadata | {"epoch": str(epoch), "owner": self._owner}, lease=lease_id)
        return epoch

    def _give_back(self, blob: BlobClient, lease_id: str) -> None:
        try:
            BlobLeaseClient(blob, lease_id).release()
        except (AzureError, DStreamError):  # the lease runs out by itself
            return

    def _holder(self, blob: BlobClient) -> str:
        """Who raised the epoch last, as far as this identity may see."""
        try:
            metadata = blob.get_blob_properties().metadata
        except (AzureError, DStreamError):
            return ""
        owner = metadata.get("owner", self._owner)
        return "" if owner == self._owner else f"; {owner} has taken it (epoch {metadata.get('epoch')})"

    def _ends_at(self, sent: SteadyTime) -> SteadyTime:
        """When a lease that was requested at `sent` ends here."""
        return SteadyTime(sent + self._lease_seconds - self._margin)

    def _id(self, lease: Lease) -> str | None:
        with self._guard:
            return self._ids[lease.name][1] if self._same(lease) else None

    def _same(self, lease: Lease) -> bool:
        return lease.name in self._ids and self._ids[lease.name][0].epoch == lease.epoch

    def _forget(self, lease: Lease) -> None:
        with self._guard:
            if self._same(lease):
                del self._ids[lease.name]

    @contextmanager
    def _translating(self, doing: str) -> Iterator[None]:
        try:
            yield
        except AzureError as error:
            raise translated(error, doing, proven=self._proven, setting=_KEY) from error
        self._proven = True


def margin(lease_seconds: float) -> float:
    """Seconds by which a lease ends here before it ends at the account: time for a send that has just begun."""
    return lease_seconds / 10
