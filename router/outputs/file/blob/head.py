"""The head of a folder: a small blob that names the folder's last file, and whether it is open. All processes agree on one file by it.

It is changed only under the condition that it is as it was read. A file that the head does not name, or no longer calls open, gets no line.
"""

from __future__ import annotations

from dataclasses import dataclass

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobClient, ContainerClient

from common.azure_blob.errors import code_of
from router.outputs.file.blob.errors import changed
from router.outputs.file.names import OPEN_ROOM, FileName, parsed

_MISSING_CONTAINER = {"ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled"}


@dataclass(frozen=True, slots=True)
class Head:
    """`name` None: the folder had no file yet. `etag` None: there is no head yet."""

    name: FileName | None
    open: bool
    etag: str | None


class Heads:
    """Of a container."""

    def __init__(self, container: ContainerClient) -> None:
        self._container = container

    def read(self, folder: str) -> Head:
        try:
            got = self._blob(folder).download_blob()
        except ResourceNotFoundError as error:
            if code_of(error) in _MISSING_CONTAINER:
                raise
            return Head(None, False, None)
        state, _, text = got.readall().decode("ascii", "replace").partition(" ")
        found = parsed(text)
        return Head(None if found is None else found[0], state == "open" and found is not None, got.properties.etag)

    def replace(self, folder: str, head: Head, *, name: FileName, open: bool) -> bool:
        """Whether it was still `head`."""
        condition = (
            {"overwrite": False}
            if head.etag is None
            else {"overwrite": True, "etag": head.etag, "match_condition": MatchConditions.IfNotModified}
        )
        try:
            self._blob(folder).upload_blob(f"{'open' if open else 'closed'} {name}".encode("ascii"), **condition)
        except HttpResponseError as error:
            if not changed(error):
                raise
            return False
        return True

    def close(self, folder: str, name: FileName) -> None:
        """`name` is not the folder's open file, or not any more."""
        head = self.read(folder)
        if head.open and head.name == name:
            self.replace(folder, head, name=name, open=False)

    def _blob(self, folder: str) -> BlobClient:
        return self._container.get_blob_client(f"{OPEN_ROOM}/{folder}/head")
