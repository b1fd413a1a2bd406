"""Which errors end what: the statement, the batch, or the transaction as well. Numbers alone; who raises them is elsewhere.

Source: https://learn.microsoft.com/sql/t-sql/statements/set-xact-abort-transact-sql
"""

from __future__ import annotations

_OF_SP_RENAME = (15001, 15223, 15224, 15225, 15248, 15249, 15253, 15333, 15335, 15336, 15600)
GO_ON = frozenset(
    (
        201,
        220,
        512,
        515,
        544,
        545,
        547,
        1202,
        1222,
        *range(1223, 1231),
        2601,
        2627,
        2628,
        2812,
        3701,
        3902,
        3903,
        3918,
        4701,
        8102,
        8115,
        8134,
        8144,
        8145,
        8152,
        *_OF_SP_RENAME,
        50000,
    )
)
"""Errors that end the statement only, XACT_ABORT being OFF."""
PROCEDURE_ERRORS = range(22800, 23000)
"""Change Data Capture reports these with RAISERROR, which ends nothing by itself."""
ROLL_BACK = frozenset((241, 242, 245, 248, 8114, 8169, 1205, 3960))
"""Conversion errors, deadlocks and conflicts of updates end the batch and the transaction."""
TERMINATED = frozenset((515, 547, 2601, 2627, 2628, 8115, 8134, 8152, 220))
"""Those of a statement that writes, after which 3621 says that it has been terminated."""
BINDING = frozenset((207, 208, 209, 4104, 4121))
"""Names are bound when a statement runs; a TRY block does not catch these errors of its own level."""
