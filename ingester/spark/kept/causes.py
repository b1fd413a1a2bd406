"""Why no archive of classes was made: the causes, which training.py's exit status carries to the ingester, and their sentences. Does nothing.

A status, and no text through a pipe: the JVM that training.py starts would have the pipe as well.
"""

from __future__ import annotations

import errno
import os
import shutil
from enum import IntEnum
from pathlib import Path

from common.errors import PermanentError

NEEDED = 200 << 20
"""Bytes of the disk: the archive takes about 70 MB, some Javas need one of their own classes too."""


class Cause(IntEnum):
    """An exit status of training.py. Python itself ends with 1 after an error, argparse with 2."""

    FAILED = 1
    USAGE = 2
    UNSAFE = 3
    ANOTHER = 4
    LAUNCHER = 5
    JAVA = 6
    NO_SPACE = 7
    NOT_WRITABLE = 8
    LITTLE_MEMORY = 9
    ATTEMPTS = 10
    ENDED = 11


_TEXTS = {
    Cause.USAGE: "the program that makes it was called with wrong arguments",
    Cause.UNSAFE: "others could exchange what lies in {folder}: only this user or root may own it and the folders above it, and write to it",
    Cause.ANOTHER: "another process makes it",
    Cause.LAUNCHER: "Spark is started by its own launcher here, which takes no archive",
    Cause.JAVA: "this Java has made none",
    Cause.NO_SPACE: "{folder} has less than 200 MB of free space",
    Cause.NOT_WRITABLE: "{folder} cannot be written to, or is no folder",
    Cause.LITTLE_MEMORY: "less than 1 GB of memory is free, or nobody can say, as on other systems than Linux",
    Cause.ATTEMPTS: "three attempts have come to nothing; another one follows after a day",
    Cause.ENDED: "making it took too long, or memory became scarce",
}


class NotMade(PermanentError):
    """No archive was made in `folder`."""

    def __init__(self, cause: Cause, folder: Path) -> None:
        super().__init__(told(cause, folder))
        self.cause = cause


def told(status: int, folder: Path) -> str:
    """The sentence for an exit status. A negative one is a signal's."""
    if status < 0:
        status = Cause.ENDED
    known = Cause(status) if status in set(Cause) else Cause.FAILED
    text = _TEXTS.get(known, "Spark did not start or did not end; `python -m ingester.spark.training` shows why")
    return text.format(folder=folder)


def refusal(error: OSError) -> Cause:
    """Which cause an error of the folder is."""
    return Cause.NO_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else Cause.NOT_WRITABLE


def unfit(folder: Path) -> Cause | None:
    """Why none can be made in this folder, as far as can be seen without making it. None: nothing is known against it."""
    there = next((each for each in (folder, *folder.parents) if each.exists()), folder)
    try:
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            return Cause.NOT_WRITABLE
        return Cause.NO_SPACE if shutil.disk_usage(there).free < NEEDED else None
    except OSError as error:
        return refusal(error)
