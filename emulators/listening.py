"""Where an emulator listens, on its command line: the type of a port, and what is said of an address that is refused."""

from __future__ import annotations

import argparse
import errno

_HIGHEST = 65535


def port(text: str) -> int:
    """argparse's type for a port."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(_HIGHEST)) and int(text) <= _HIGHEST):
        raise argparse.ArgumentTypeError(f"{text!r}: a port is a number from 0 to {_HIGHEST}")
    return int(text)


def refusal(emulator: str, error: Exception, other_ports: str, *, address: str = "") -> str:
    """Why `emulator` did not start. `other_ports`: the options for them, named in a second line where another program has the port.

    `address`: where `error` is of a socket's making, the address that it was for.
    """
    why = f"{address}: {_words(error)}" if address else str(error)
    said = f"starting the {emulator} emulator: {why}"
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"{said}\nanother program has that port: {other_ports} (0: any that is free)"
    return said


def _words(error: Exception) -> str:
    """Without the number of an OSError and without the address, which `socket` puts behind the system's words."""
    words = (str(error.strerror) if isinstance(error, OSError) else str(error)).partition(" (while ")[0]
    return words[:1].lower() + words[1:]
