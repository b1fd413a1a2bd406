"""Adds lines to the open file of a folder, an append blob, a block for each addition.

Each block is added under the condition that the blob is as it was after the last one (its ETag), so several processes take turns without a lock,
and an addition that is late or was sent twice changes nothing. When an answer is lost, the end of the blob shows whether the block is there.
https://learn.microsoft.com/rest/api/storageservices/append-block
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobClient, ContainerClient

from common.azure_blob.errors import code_of
from common.errors import TransientError
from router.outputs.file.blob.errors import changed, in_doubt, translating
from router.outputs.file.blob.head import Heads
from router.outputs.file.names import OPEN_ROOM, FileName, following
from router.outputs.file.rolling import Limits

MOST_BLOCKS = 49_000
"""An append blob has 50,000 at most."""

SEALED = "sealed"
"""The key of a complete file's metadata."""

_WAIT = 0.05
"""Seconds between two attempts where another process was first."""


@dataclass(slots=True)
class _Open:
    """The folder's open file as this process knows it."""

    name: FileName
    blob: BlobClient
    etag: str
    size: int
    blocks: int


class BlobJournal:
    """A `router.outputs.file.store.Journal`."""

    def __init__(
        self,
        container: ContainerClient,
        folder: str,
        ending: str,
        *,
        limits: Limits,
        complete: Callable[[], None],
        now: Callable[[], datetime],
    ) -> None:
        self._container, self._folder, self._ending = container, folder, ending
        self._limits, self._complete, self._now = limits, complete, now
        self._heads = Heads(container)
        self._open: _Open | None = None
        self._in_doubt: bytes | None = None

    def append(self, data: bytes, *, lsn: str, seconds: float) -> None:
        """See the port."""
        until = time.monotonic() + seconds
        with translating(f"adding to {self._folder} in container {self._container.container_name}"):
            while True:
                file = self._open or self._find(lsn)
                known = self._in_doubt is not None  # that must be settled before the file is sealed
                if file is not None and (known or not self._is_complete(file)) and self._added(file, data, until):
                    break
                self._open = None
                if time.monotonic() >= until:
                    raise TransientError(f"adding to {self._folder}: other processes were always first")
                time.sleep(_WAIT if file is None else 0)
        if self._limits.reached(file.name, file.size, now=self._now()):
            self._complete()

    def close(self) -> None:
        """What is in doubt is remembered: it is likely to be added again."""
        if self._in_doubt is None:
            self._open = None

    def _is_complete(self, file: _Open) -> bool:
        """Whether it is sealed now, because it is large or old enough."""
        if file.blocks < MOST_BLOCKS and not self._limits.reached(file.name, file.size, now=self._now()):
            return False
        seal(file.blob, file.etag)
        self._heads.close(self._folder, file.name)
        self._complete()
        return True

    def _added(self, file: _Open, data: bytes, until: float) -> bool:
        """False when the blob is not as it was known to be. Raises AzureError when it is not known whether `data` is there."""
        doubted = self._in_doubt is not None and self._in_doubt.startswith(data)
        while True:
            if time.monotonic() >= until:  # nobody waits any longer, and another process may have added newer lines
                raise TransientError(f"adding to {self._folder}: the storage account took too long")
            try:
                answer = file.blob.append_block(data, etag=file.etag, match_condition=MatchConditions.IfNotModified)
            except AzureError as error:
                if changed(error):
                    self._in_doubt = None
                    return doubted and self._is_there(file, data)
                if not in_doubt(error):
                    raise
                doubted, self._open, self._in_doubt = True, file, data
                if time.monotonic() >= until:
                    raise
                time.sleep(_WAIT)
                continue
            file.etag, file.size = str(answer["etag"]), file.size + len(data)
            file.blocks += 1
            self._open, self._in_doubt = file, None
            return True

    def _is_there(self, file: _Open, data: bytes) -> bool:
        """Whether the block behind what was known is `data`. Others may have added more behind it."""
        try:
            there = file.blob.download_blob(file.size, len(data)).readall()
        except HttpResponseError as error:
            if error.status_code != 416:  # nothing is there
                raise
            return False
        if there != data:
            return False
        file.size += len(data)
        self._open = None
        return True

    def _find(self, lsn: str) -> _Open | None:
        """The folder's open file; None when another process changes it at this moment."""
        head = self._heads.read(self._folder)
        if not head.open or head.name is None:
            name = following(head.name, now=self._now(), lsn=lsn, ending=self._ending)
            if not self._heads.replace(self._folder, head, name=name, open=True):
                return None
            head = self._heads.read(self._folder)
        if not head.open or head.name is None:
            return None
        blob = self._container.get_blob_client(staged_path(self._folder, head.name))
        found = self._looked_at(blob, head.name)
        if found is None or head.name.ending != self._ending:
            if found is not None:
                seal(blob, found.etag)
            self._heads.close(self._folder, head.name)
            return None
        if (
            self._heads.read(self._folder).etag != head.etag
        ):  # it was sealed, finished and removed before it was made here
            if not found.size:
                remove_if(blob, found.etag)
            return None
        return found

    def _looked_at(self, blob: BlobClient, name: FileName) -> _Open | None:
        """The blob, made if it does not exist; None when it is sealed."""
        try:
            held = blob.get_blob_properties()
        except ResourceNotFoundError as error:
            if code_of(error) == "ContainerNotFound":
                raise
        else:
            if SEALED in (held.metadata or {}):
                return None
            return _Open(name, blob, str(held.etag), held.size, held.append_blob_committed_block_count or 0)
        made = blob.create_append_blob(match_condition=MatchConditions.IfMissing)
        return _Open(name, blob, str(made["etag"]), 0, 0)


def staged_path(folder: str, name: FileName) -> str:
    return f"{OPEN_ROOM}/{folder}/{name.staged('open')}"


def seal(blob: BlobClient, etag: str) -> bool:
    """Whether it is sealed: no block is added any more, because its ETag is another one. False when it was changed meanwhile."""
    try:
        blob.set_blob_metadata({SEALED: "true"}, etag=etag, match_condition=MatchConditions.IfNotModified)
    except HttpResponseError as error:
        if not changed(error):
            raise
        return False
    return True


def remove_if(blob: BlobClient, etag: str) -> None:
    """An empty one, unless somebody has added to it."""
    try:
        blob.delete_blob(etag=etag, match_condition=MatchConditions.IfNotModified)
    except HttpResponseError as error:
        if not changed(error):
            raise
