"""T-SQL in a remedy, with the database in which it is run: a person's session may be in another one. Pure."""

from __future__ import annotations

import re

_STATEMENT = re.compile(r"\b(?=EXEC sys\.|GRANT [A-Z, ]+ (?:ON|TO) |ALTER TABLE )")
_PLACED = re.compile(r"\bUSE [\w\[]")


def in_database(remedy: str | None, database: str) -> str | None:
    """`EXEC sys.sp_cdc_start_job ...` as `USE [shop]; EXEC sys.sp_cdc_start_job ...`: before the first statement alone."""
    if remedy is None or not database or _PLACED.search(remedy):
        return remedy
    quoted = database.replace("]", "]]")
    return _STATEMENT.sub(lambda _: f"USE [{quoted}]; ", remedy, count=1)
