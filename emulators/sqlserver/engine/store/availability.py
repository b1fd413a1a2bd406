"""Whether a database can be entered, and by how many: the options of ALTER DATABASE ... SET that say so, and the errors of those who may not.

Knows no session: who is in a database, and who must leave it, is database_states.py's.
https://learn.microsoft.com/sql/t-sql/statements/alter-database-transact-sql-set-options
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from emulators.sqlserver.results import SqlError

ACCESS: Final = ("MULTI_USER", "SINGLE_USER", "RESTRICTED_USER")
"""By their numbers in sys.databases."""
MULTI_USER, SINGLE_USER, RESTRICTED_USER = ACCESS


@dataclass(frozen=True, slots=True)
class Availability:
    """Of one database; it keeps its `access` while it is offline."""

    access: str = MULTI_USER
    offline: bool = False

    @property
    def for_jobs(self) -> bool:
        """Whether the server's own jobs work in it: the one place of a single user is never theirs."""
        return not self.offline and self.access != SINGLE_USER

    @property
    def state(self) -> tuple[int, str]:
        """As sys.databases has it."""
        return (6, "OFFLINE") if self.offline else (0, "ONLINE")


def offline(name: str) -> SqlError:
    return SqlError(942, f"Database '{name}' cannot be opened because it is offline.", 14, 4)


def taken(name: str) -> SqlError:
    return SqlError(924, f"Database '{name}' is already open and can only have one user at a time.", 14)


def restricted(name: str) -> SqlError:
    text = (
        f"Database '{name}' is in restricted mode. Only the database owner and members of the dbcreator and sysadmin roles can "
        "access it."
    )
    return SqlError(923, text, 14)
