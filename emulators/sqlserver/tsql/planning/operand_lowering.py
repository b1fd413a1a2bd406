"""What the lowering of a single call asks of the lowering of expressions (expressions.py), which asks it in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sqlglot import exp

from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql.planning.plans import Expr, Names
from emulators.sqlserver.tsql.planning.precedence import Label
from emulators.sqlserver.tsql.planning.scopes import Scope
from emulators.sqlserver.tsql.values.calls import Call


class OperandLowering(Protocol):
    """Lowers the arguments of a call, and gives the call the type and the collation that follow from them."""

    @property
    def names(self) -> Names: ...

    def expression(self, node: exp.Expr, scope: Scope) -> Expr: ...

    def condition(self, node: exp.Expr, scope: Scope) -> str: ...

    def call(self, key: tuple[object, ...], make: Callable[[], Call], arguments: Sequence[Expr], kind: SqlType) -> Expr:
        """A call of a function of Python, made once for all uses of `key`."""
        ...

    def cast(self, value: Expr, target: SqlType, style: int = 0) -> Expr:
        """CONVERT(target, value, style)."""
        ...

    def represented(self, value: Expr, target: SqlType) -> Expr:
        """`value` in the storage form of `target`, without a call where the form is the same."""
        ...

    def unify(self, values: Sequence[Expr]) -> SqlType:
        """The common type of CASE branches and the like; int when all are NULL."""
        ...

    def typed(self, value: Expr) -> SqlType:
        """The type with the collation that it has in this database."""
        ...

    def together(self, values: Sequence[Expr], operator: str) -> Label:
        """The label of what `operator` makes of these, whatever of them is text. Raises 468."""
        ...

    def labelled(self, result: Expr, values: Sequence[Expr], operator: str) -> Expr:
        """`result` with the collation that `operator` gives to text made of `values`."""
        ...
