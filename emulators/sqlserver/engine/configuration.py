"""Server configuration options. Two can be set: "max text repl size (B)", which Change Data Capture heeds, and "show advanced options";
the others show their defaults, and setting them is refused by name. statements/configuring.py has the statements that show and set them.

Errors: 15123, 15124, 15129. Source: https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-configure-transact-sql
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.tsql import errors

MAX_TEXT_REPL_SIZE = "max text repl size (B)"
_SHOW_ADVANCED = "show advanced options"
_SETTABLE = (MAX_TEXT_REPL_SIZE, _SHOW_ADVANCED)


@dataclass(slots=True)
class Option:
    """`value` as it was set, `running` as it has been since the last RECONFIGURE."""

    number: int
    name: str
    least: int
    most: int
    value: int
    advanced: bool = False
    dynamic: bool = True
    running: int = 0


def _options() -> list[Option]:
    found = [
        Option(16384, "Agent XPs", 0, 1, 1, advanced=True),
        Option(124, "default language", 0, 9999, 0),
        Option(1544, "max server memory (MB)", 128, 2147483647, 2147483647, advanced=True),
        Option(1536, MAX_TEXT_REPL_SIZE, -1, 2147483647, 65536),
        Option(115, "nested triggers", 0, 1, 1),
        Option(518, _SHOW_ADVANCED, 0, 1, 0),
        Option(1127, "two digit year cutoff", 1753, 9999, 2049, advanced=True),
        Option(103, "user connections", 0, 32767, 0, advanced=True, dynamic=False),
    ]
    for option in found:
        option.running = option.value
    return found


class Configuration:
    """The options of a server. `changed` is told the name and the new value of an option that RECONFIGURE changes."""

    def __init__(self) -> None:
        self.options = _options()
        self.saved: Callable[[], None] = lambda: None
        """Called after every change, before it is answered."""
        self._kept: Mapping[str, int] = {}
        self.changed: Callable[[str, int], None] = lambda name, value: None
        self._guard = threading.Lock()

    def start_with(self, name: str, value: int) -> None:
        """What the server was installed with; what was set since then stays."""
        if name not in self._kept:
            option = self._named(name)
            option.value = option.running = value

    def restore(self, kept: Mapping[str, int]) -> None:
        """Options as they were set in an earlier run: a start installs them all."""
        self._kept = kept
        for name, value in kept.items():
            option = self._named(name)
            option.value = option.running = value

    def state(self) -> dict[str, int]:
        """What can be set, as it was set."""
        return {option.name: option.value for option in self.options if option.name in _SETTABLE}

    def running(self, name: str) -> int:
        return self._named(name).running

    def _named(self, name: str) -> Option:
        return next(option for option in self.options if option.name == name)

    def find(self, written: str) -> Option:
        """By any unambiguous part of its name. Raises 15123, 15124."""
        wanted = written.lower()
        shown = [option for option in self.options if self._visible(option)]
        found = [o for o in shown if o.name.lower() == wanted] or [o for o in shown if wanted in o.name.lower()]
        if not found:
            text = f"The configuration option '{written}' does not exist, or it may be an advanced option."
            raise SqlError(15123, text, 16)
        if len(found) > 1:
            raise SqlError(15124, f"The configuration option '{written}' is not unique.", 16)
        return found[0]

    def listed(self) -> list[Option]:
        return [option for option in self.options if self._visible(option)]

    def put(self, option: Option, value: int) -> int:
        """The former value. Raises 15129."""
        if option.name not in _SETTABLE:
            raise errors.unsupported(f"sp_configure '{option.name}'")
        if not option.least <= value <= option.most:
            raise SqlError(15129, f"'{value}' is not a valid value for configuration option '{option.name}'.", 16)
        with self._guard:
            before, option.value = option.value, value
            self.saved()
        return before

    def reconfigure(self) -> None:
        with self._guard:
            for option in self.options:
                if option.running != option.value:
                    option.running = option.value
                    self.changed(option.name, option.value)

    def _visible(self, option: Option) -> bool:
        showing = next(o.running for o in self.options if o.name == _SHOW_ADVANCED)
        return bool(showing) or not option.advanced
