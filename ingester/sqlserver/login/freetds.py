"""FreeTDS's own file: settings that pymssql has no parameter for. In memory, so that no cleaner of /tmp deletes it and
nothing is left behind.

FreeTDS reads the file that FREETDSCONF names at each connect. Here that is a file without a name (memfd), accessed
through /proc, with a section for each host that is being connected to. The section has the host's name: the driver
sends it as LOGIN7's ServerName, and Azure's gateway finds the server by it. So two connects wait for each other only if
they need the same host with different settings.

The variable is set when this module is imported and never changed later: other threads may be reading the environment
in C, which is not safe with setenv (https://man7.org/linux/man-pages/man3/setenv.3.html: MT-Unsafe). The content is
replaced as a whole, by another file under the same descriptor (dup2): a reader of the previous one reads it to its end.
The path names this process, not /proc/self: child programs inherit the variable, and their descriptor of that number
may be a pipe that never has data.
https://www.freetds.org/userguide/freetdsconf.html
https://man7.org/linux/man-pages/man2/memfd_create.2.html
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from common.errors import ConnectionLost, PermanentError

VARIABLE = "FREETDSCONF"

_turn = threading.Condition()
_users: dict[str, int] = {}
_texts: dict[str, str] = {}
_waiting: dict[str, deque[object]] = {}
_held: dict[bytes, int] = {}
_descriptor: int | None = None
_written = ""


@contextmanager
def driver_file(section: str, settings: Mapping[str, str], seconds: float) -> Iterator[None]:
    """Meanwhile the driver finds `section` with these `settings`.

    A call that needs the section with other settings waits for at most `seconds`, in order of arrival. Raises
    PermanentError for texts that the file cannot hold, and ConnectionLost when the time is up.
    """
    refuse_what_fits_no_line(section, *settings.values())
    text = f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items())
    name = section.lower()  # as the driver compares them
    _begin(name, text, seconds)
    try:
        yield
    finally:
        _end(name)


def refuse_what_fits_no_line(*texts: str) -> None:
    """Raises PermanentError for a text that would be two lines of the file, a comment or a section. The file has no
    quotes."""
    if any(re.search(r"[\x00-\x20;#\[\]]", text) for text in texts):
        raise PermanentError("connecting to SQL Server: the driver does not support this host name")


def held(content: bytes) -> str:
    """A path to a file with this content, which exists as long as the process and its forks."""
    with _turn:
        if content not in _held:
            _held[content] = _file(content)
        return _readable(_held[content])


def _begin(name: str, text: str, seconds: float) -> None:
    with _turn:
        line, ticket = _waiting.setdefault(name, deque()), object()
        line.append(ticket)
        try:
            if not _turn.wait_for(lambda: line[0] is ticket and _texts.get(name, text) == text, seconds):
                raise ConnectionLost(
                    f"connecting to SQL Server {name}: another login to this host, with another address or other certificates, has not ended",
                    hint="check whether that address hangs; DStream retries",
                )
            _users[name] = _users.get(name, 0) + 1
            _texts[name] = text
            _publish()
        finally:
            line.remove(ticket)
            if not line:
                del _waiting[name]
            _turn.notify_all()


def _end(name: str) -> None:
    with _turn:
        if name not in _users:  # begun before a fork
            return
        _users[name] -= 1
        if _users[name] == 0:
            del _users[name], _texts[name]
            _turn.notify_all()


def _publish() -> None:
    """Write the sections in use to the file. The caller holds `_turn`."""
    global _descriptor, _written
    if _descriptor is None:
        _descriptor = _file(b"")
    if (content := "".join(_texts.values())) != _written:
        another = _file(content.encode())
        os.dup2(another, _descriptor, inheritable=False)
        os.close(another)
        _written = content
    path = _readable(_descriptor)
    if os.environ.get(VARIABLE) != path:  # changed since
        os.environ[VARIABLE] = path


def _file(content: bytes) -> int:
    descriptor = os.memfd_create("freetds", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    return descriptor


def _readable(descriptor: int) -> str:
    path = _path(descriptor)
    if not Path(path).exists():  # the driver would use its defaults, and verify nothing
        raise PermanentError("connecting to SQL Server: /proc is not mounted, but the driver reads its settings there")
    return path


def _path(descriptor: int) -> str:
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _first() -> None:
    """Called before there are threads that read the environment."""
    global _descriptor
    if hasattr(os, "memfd_create"):
        _descriptor = _file(b"")
        os.environ[VARIABLE] = _path(_descriptor)


def _begin_again() -> None:
    """After a fork: users of sections are in the parent, whose file does not change. The child has one thread."""
    global _turn
    _turn = threading.Condition()
    for table in (_users, _texts, _waiting):
        table.clear()
    if _descriptor is not None:
        os.environ[VARIABLE] = _path(_descriptor)


_first()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)
