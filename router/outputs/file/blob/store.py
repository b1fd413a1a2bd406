"""Files in a container. A finished file is a block blob that appears under its name at once, when all of its blocks are there."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, cast

from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobClient, BlobLeaseClient, BlobServiceClient

from common.azure_blob.connecting import service_of
from common.azure_blob.errors import LISTING_NOT_COVERED, TAKEN, code_of, status_of
from common.bus.ports import Provision
from common.check import Finding, by_shell, fail, ok
from common.errors import EntityMissing, PermanentError
from router.outputs.file.blob.errors import changed, translating
from router.outputs.file.blob.head import Heads
from router.outputs.file.blob.journal import SEALED, BlobJournal, remove_if, seal, staged_path
from router.outputs.file.local.journal import utc_now
from router.outputs.file.names import OPEN_ROOM, Staged, parsed
from router.outputs.file.rolling import Limits
from router.outputs.file.settings import FileSettings
from router.outputs.file.store import Conversion, in_order

_LEASE_SECONDS = 60
_ENDED_STATUS = {404, 409, 412}


class BlobStore:
    """A `router.outputs.file.store.Store`."""

    def __init__(
        self,
        service: BlobServiceClient,
        container: str,
        *,
        where: str,
        ending: str,
        limits: Limits,
        complete: Callable[[], None] = lambda: None,
    ) -> None:
        self._service, self._where = service, where
        self._container = service.get_container_client(container)
        self._heads = Heads(self._container)
        self._ending, self._limits, self._complete = ending, limits, complete
        self._proven = False

    @classmethod
    def of(cls, settings: FileSettings, *, limits: Limits, complete: Callable[[], None]) -> BlobStore:
        """Raises ConfigurationError."""
        key = settings.connection_string
        service = service_of(
            connection_string=None if key is None else key.get_secret_value(),
            account_url=settings.account_url,
            seconds=settings.timeout.total_seconds(),
            setting="connection_string of the output",
        )
        return cls(
            service,
            settings.container_name,
            where=settings.where,
            ending=settings.ending,
            limits=limits,
            complete=complete,
        )

    @property
    def where(self) -> str:
        return self._where

    def ready(self) -> None:
        with translating(f"looking for container {self._container.container_name}", proven=self._proven):
            try:
                self._container.get_container_properties()
            except HttpResponseError as error:
                if code_of(error) not in LISTING_NOT_COVERED:
                    raise
        self._proven = True

    def journal(self, folder: str) -> BlobJournal:
        return BlobJournal(
            self._container, folder, self._ending, limits=self._limits, complete=self._complete, now=utc_now
        )

    def staged(self) -> Sequence[Staged]:
        begin = f"{OPEN_ROOM}/"
        with translating(f"listing {begin} in container {self._container.container_name}", proven=self._proven):
            found = [
                Staged(folder, name[0], "sealed" if SEALED in (blob.metadata or {}) else "open", blob.size)
                for blob in self._container.list_blobs(name_starts_with=begin, include=["metadata"])
                for folder, _, last in [blob.name.removeprefix(begin).rpartition("/")]
                if folder and (name := parsed(last)) is not None
            ]
        return in_order(found)

    def seal(self, staged: Staged) -> None:
        blob = self._blob(staged)
        with translating(f"sealing {blob.blob_name}"):
            try:
                held = blob.get_blob_properties()
            except ResourceNotFoundError:
                return
            if SEALED in (held.metadata or {}) or seal(blob, str(held.etag)):
                self._heads.close(staged.folder, staged.name)

    def finish(self, staged: Staged, conversion: Conversion | None) -> bool:
        blob = self._blob(staged)
        with translating(f"finishing {blob.blob_name}"):
            self._heads.close(staged.folder, staged.name)
            if not staged.size:
                return self._removed_empty(blob)
            lease = BlobLeaseClient(blob)
            try:
                lease.acquire(_LEASE_SECONDS)
            except HttpResponseError as error:
                if code_of(error) not in TAKEN and status_of(error) != 404:
                    raise
                return False
            try:
                self._publish(blob, staged, conversion)
            except (AzureError, ValueError, OSError):
                _give_back(lease)
                raise
            _remove(blob, lease)
        return True

    def _publish(self, blob: BlobClient, staged: Staged, conversion: Conversion | None) -> None:
        final = self._container.get_blob_client(f"{staged.folder}/{staged.name.day}/{staged.name}")
        with tempfile.TemporaryFile() as lines, tempfile.TemporaryFile() as made:
            blob.download_blob().readinto(cast("BinaryIO", lines))
            lines.seek(0)
            file = lines
            if conversion is not None:
                conversion(cast("BinaryIO", lines), cast("BinaryIO", made))
                file = made
            length = file.seek(0, 2)
            file.seek(0)
            final.upload_blob(file, length=length, overwrite=True)

    def _removed_empty(self, blob: BlobClient) -> bool:
        try:
            held = blob.get_blob_properties()
        except ResourceNotFoundError:
            return False
        if not held.size:
            remove_if(blob, str(held.etag))
        return False

    def provide(self, how: Provision) -> None:
        name = self._container.container_name
        if how == "create":
            with translating(f"creating container {name}", proven=self._proven):
                self._create()
        try:
            self.ready()
        except EntityMissing as error:
            raise PermanentError(error.message, hint=error.hint) from error

    def _create(self) -> None:
        """Without the right to create one there may be one that can be used."""
        try:
            self._container.create_container()
        except ResourceExistsError as error:
            if code_of(error) != "ContainerAlreadyExists":
                raise
        except HttpResponseError as error:
            if status_of(error) != 403:
                raise

    def findings(self, provision: Provision) -> Iterator[Finding]:
        name = self._container.container_name
        subject = f"container {name}"
        try:
            self.ready()
        except EntityMissing as error:
            if provision == "create":
                yield ok(subject, "it does not exist yet and is created at the first start")
                return
            account = self.where.partition(".")[0]
            making = by_shell(f"az storage container create --name {name} --account-name {account} --auth-mode login")
            yield fail(subject, error.message, error.hint, fix=making)
            return
        yield ok(subject, "it exists")

    def close(self) -> None:
        self._service.close()

    def _blob(self, staged: Staged) -> BlobClient:
        return self._container.get_blob_client(staged_path(staged.folder, staged.name))


def _give_back(lease: BlobLeaseClient) -> None:
    try:
        lease.release()
    except AzureError:  # it runs out by itself
        return


def _remove(blob: BlobClient, lease: BlobLeaseClient) -> None:
    """Whoever has the lease by now removes it otherwise."""
    try:
        blob.delete_blob(lease=lease)
    except HttpResponseError as error:
        if not changed(error) and status_of(error) not in _ENDED_STATUS:
            raise
