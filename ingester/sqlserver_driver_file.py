"""FreeTDS's own file: what pymssql has no parameter for. Held in memory, so that no cleaner of /tmp takes it and nothing is left behind.

FreeTDS reads the file that FREETDSCONF names at each connect. Here that is a file without a name (memfd), seen through /proc, with one
section, named as the host is: the driver sends a section's name as LOGIN7's ServerName, and Azure's gateway finds the server by it.
The variable is the process's. Connects with the same file go side by side, those that need another one wait until these are through.
https://www.freetds.org/userguide/freetdsconf.html
https://man7.org/linux/man-pages/man2/memfd_create.2.html
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from common.errors import PermanentError

_VARIABLE = "FREETDSCONF"

_turn = threading.Condition()
_users = 0
_current = ""
_before: str | None = None
_held: dict[bytes, int] = {}


@contextmanager
def driver_file(section: str, settings: Mapping[str, str]) -> Iterator[None]:
    """Whatever the driver opens meanwhile, it finds `section` with these `settings`. Raises PermanentError for what fits no such file."""
    refuse_what_fits_no_line(section, *settings.values())
    text = f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items())
    with _in_use(held(text.encode())):
        yield


def refuse_what_fits_no_line(*texts: str) -> None:
    """Raises PermanentError for a text that would be two lines of the file, a comment or a section. Quotes there are none."""
    if any(re.search(r"[\x00-\x20;#\[\]]", text) for text in texts):
        raise PermanentError("connecting to SQL Server: the driver cannot take such a host name")


def held(content: bytes) -> str:
    """A path to a file with this content that lives as long as the process, and in whatever is forked from it."""
    with _turn:
        if content not in _held:
            descriptor = os.memfd_create("freetds", os.MFD_CLOEXEC)
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            _held[content] = descriptor
        path = f"/proc/self/fd/{_held[content]}"
    if not Path(path).exists():  # the driver would go on with its defaults, and verify nothing
        raise PermanentError("connecting to SQL Server: /proc is not mounted, and the driver reads its settings there")
    return path


@contextmanager
def _in_use(path: str) -> Iterator[None]:
    global _current, _users, _before
    with _turn:
        _turn.wait_for(lambda: _users == 0 or _current == path)
        if _users == 0:
            _before = os.environ.get(_VARIABLE)
        _users, _current, os.environ[_VARIABLE] = _users + 1, path, path
    try:
        yield
    finally:
        with _turn:
            _users -= 1
            if _users == 0:
                _restore()
            _turn.notify_all()


def _restore() -> None:
    if _before is None:
        del os.environ[_VARIABLE]
    else:
        os.environ[_VARIABLE] = _before
