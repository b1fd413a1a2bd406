"""What `dstream plan` says of files. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from common.azure_blob.settings import ROLE
from common.bus.ports import Provision
from router.outputs.file.settings import FileSettings
from router.outputs.port import Planned, Stream


def planned(settings: FileSettings, streams: Sequence[Stream], provision: Provision) -> Planned:
    """A folder is made with its first file, and so needs no provisioning."""
    folders = sorted({stream.destination for stream in streams})
    later = [f"the folder {folder} with the first change" for folder in folders]
    if settings.root is None:
        name = settings.container_name
        account = settings.where.partition(".")[0]
        return Planned(
            creates=[*([f"the container {name}"] if provision == "create" else []), *later],
            needs=[f"{ROLE}, or a signature with read, add, create, write, delete and list"],
            script=f"az storage container create --name {name} --account-name {account} --auth-mode login\n",
        )
    root = shlex.quote(settings.root)
    return Planned(
        creates=[*([f"the directory {settings.root}"] if provision == "create" else []), *later],
        needs=[f"the right to write in {settings.root}, on a file system with locks (flock)"],
        script=f"mkdir -p {root}\n",
    )
