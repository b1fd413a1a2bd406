"""Lowers scalar expressions to SQLite's SQL, knowing the T-SQL type of each. Only the nodes named here pass; the rest is refused.

Here are the walk, conversions, collations and names; constants, operators and calls of functions are lowered by modules of those
names, which ask back for their operands (operand_lowering.py). NULL needs no type, and strings compare under their collation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from emulators.sqlserver.codepages import kept
from emulators.sqlserver.collation import SERVER_DEFAULT
from emulators.sqlserver.results import Column, SqlError
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.functions import date_functions
from emulators.sqlserver.tsql.functions.session_functions import (
    GLOBALS,
    REFUSED_GLOBALS,
    SESSION_FUNCTIONS,
)
from emulators.sqlserver.tsql.planning import constants, function_calls, operators
from emulators.sqlserver.tsql.planning.plans import Expr, Names, Virtual
from emulators.sqlserver.tsql.planning.precedence import COERCIBLE, EXPLICIT, IMPLICIT, Label, combined, unresolved
from emulators.sqlserver.tsql.planning.scopes import Scope
from emulators.sqlserver.tsql.planning.special_calls import SPECIAL
from emulators.sqlserver.tsql.reading.reader import RESERVED
from emulators.sqlserver.tsql.reading.trees import described
from emulators.sqlserver.tsql.values.calls import Call, chained, register, strict
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.types import (
    INT,
    code_page,
    collated,
    collation,
    collation_named,
    family,
    is_unicode,
    merged,
)

_NESTED, _MOST_ARGUMENTS = 6, 90
"""Calls in one another that are left as they are, and arguments of one call of SQLite's (limit 127)."""
AGGREGATES = frozenset(("COUNT", "COUNT_BIG", "SUM", "AVG", "MIN", "MAX", "STRING_AGG"))


class Expressions:
    """State of lowering one statement, and its scalar expressions. `variables`: lower-case name -> type."""

    def __init__(self, names: Names, variables: Mapping[str, SqlType]) -> None:
        self.names = names
        self.variables = variables
        self.parameters: list[str] = []
        self.virtuals: list[Virtual] = []
        self.databases: set[str] = set()
        self.grouped: Sequence[exp.Expr] | None = None
        """The GROUP BY expressions while a grouped query's items are lowered."""
        self._calls: dict[str, tuple[tuple[tuple[int, int], ...], list[str]]] = {}
        """By the SQL of a call: it and those in its first argument, the inner one first, and the SQL of all their arguments."""
        self.ungrouped = 8120
        """The error for other columns in the clause that is being lowered."""
        self.no_aggregate = 0
        """The error for aggregates in the clause that is being lowered; 0 where they may stand."""

    # Implemented where queries and predicates are lowered.
    def scalar_subquery(self, node: exp.Expr, scope: Scope) -> Expr:
        raise NotImplementedError

    def condition(self, node: exp.Expr, scope: Scope) -> str:
        raise NotImplementedError

    def aggregate(self, node: exp.Anonymous, name: str, scope: Scope) -> Expr:
        raise NotImplementedError

    def window(self, node: exp.Window, scope: Scope) -> Expr:
        raise NotImplementedError

    def within_group(self, node: exp.WithinGroup, scope: Scope) -> Expr:
        raise NotImplementedError

    # -- the walk

    def expression(self, node: exp.Expr, scope: Scope) -> Expr:
        if self.grouped is not None and self._is_grouped(node, scope):
            grouped, self.grouped = self.grouped, None
            try:
                return self.expression(node, scope)
            finally:
                self.grouped = grouped
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise errors.unsupported(described(node))
        return handler(self, node, scope)

    def _is_grouped(self, node: exp.Expr, scope: Scope) -> bool:
        """Whether it is one of the GROUP BY expressions, however either names its columns."""
        if isinstance(node, exp.Literal) or not self.grouped:
            return False
        if node in self.grouped:
            return True
        alike = [item for item in self.grouped if type(item) is type(node)]
        return bool(alike) and self._resolved(node, scope) in [self._resolved(item, scope) for item in alike]

    def _resolved(self, node: exp.Expr, scope: Scope) -> exp.Expr:
        """The same expression with each column as SQLite reads it, where it is one."""

        def read(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Column) or isinstance(part.this, exp.Star):
                return part
            try:
                found = scope.column(part.name, [each.name for each in part.parts[:-1]], self.names.fold)
            except SqlError:
                return part
            return exp.to_identifier(found.sql, quoted=True)

        return node.transform(read)

    def call(self, key: tuple[object, ...], make: Callable[[], Call], arguments: Sequence[Expr], kind: SqlType) -> Expr:
        number = register(key, make)
        own = [argument.sql for argument in arguments]
        before, given = self._calls.get(own[0], ((), [])) if own else ((), [])
        calls, listed = (*before, (number, len(own) - bool(before))), [*given, *own[bool(before) :]]
        if len(listed) > _MOST_ARGUMENTS:
            calls, listed = ((number, len(own)),), own
        if len(calls) > _NESTED:
            number, shown = register(("chain", calls), lambda: chained(calls)), listed
        else:
            shown = own
        sql = f"fn({', '.join([str(number), *shown])})"
        self._calls[sql] = calls, listed
        return Expr(sql, kind)

    def cast(self, value: Expr, target: SqlType, style: int = 0) -> Expr:
        """CONVERT(target, value, style)."""
        if value.is_null:
            return Expr("NULL", target, is_null=True)
        if style == 0 and (value.type == target or collated(value.type, target.collation) == target):
            return value
        if family(target) == "string":
            return self._cast_text(value, target, style)
        source = self.typed(value)
        run = converter(source, target, style)
        found = self.call(("convert", source, target, style), lambda: run, [value], target)
        return Expr(found.sql, target, value.nullable)

    def _cast_text(self, value: Expr, target: SqlType, style: int) -> Expr:
        """Text that is made of text keeps its collation."""
        source, label = self.typed(value), self.together([value], "convert")
        kind = collated(target, label.name)
        run = converter(source, kind, style)
        found = self.call(("convert", source, kind, style), lambda: run, [value], kind)
        return Expr(found.sql, kind, value.nullable, strength=label.strength, conflict=label.conflict)

    def represented(self, value: Expr, target: SqlType) -> Expr:
        """`value` in the storage form of `target`, without a call where the form is the same."""
        if value.is_null or value.type == target or _same_form(value.type, target):
            return replace(value, type=target)
        return self.cast(value, target)

    def unify(self, values: Sequence[Expr]) -> SqlType:
        """The common type of CASE branches and the like; int when all are NULL."""
        kind: SqlType | None = None
        for value in values:
            if not value.is_null:
                kind = value.type if kind is None else merged(kind, value.type)
        return kind or INT

    # -- collations

    def label(self, value: Expr) -> Label:
        if value.strength == COERCIBLE:
            return Label(COERCIBLE, self.names.collation)
        return Label(value.strength, value.type.collation, value.conflict)

    def together(self, values: Sequence[Expr], operator: str) -> Label:
        """The label of what `operator` makes of these, whatever of them is text. Raises 468."""
        texts = (self.label(v) for v in values if not v.is_null and family(v.type) == "string")
        return combined(texts, self.names.collation, operator)

    def labelled(self, result: Expr, values: Sequence[Expr], operator: str) -> Expr:
        """`result` with the collation that `operator` gives to text made of `values`."""
        if family(result.type) != "string":
            return result
        label = self.together(values, operator)
        kind = collated(result.type, label.name)
        return replace(result, type=kind, strength=label.strength, conflict=label.conflict)

    def typed(self, value: Expr) -> SqlType:
        """The type with the collation that it has in this database."""
        return collated(value.type, self.label(value).name)

    def ordered(self, value: Expr, place: str) -> str:
        """SQLite's name of the order of the value's type, or "". Raises 451, 457."""
        self.check_resolved(value, place)
        return collation(self.typed(value))

    def check_resolved(self, value: Expr, place: str) -> None:
        if value.conflict is not None:
            raise unresolved(value.conflict, is_unicode(value.type), value.type.name, place)

    def column(self, sql: str, column: Column) -> Expr:
        """A column of a table, as SQLite reads it by `sql`."""
        strength = IMPLICIT if family(column.type) == "string" else COERCIBLE
        return Expr(sql, column.type, column.nullable, column.identity, strength=strength)

    # -- names

    def _variable(self, node: exp.Expr, scope: Scope) -> Expr:
        if isinstance(node.this, exp.Parameter):
            name = node.this.name.upper()
            if name in REFUSED_GLOBALS:
                raise errors.unsupported(f"@@{name}")
            if name not in GLOBALS:
                raise errors.undeclared_variable("@@" + node.this.name)
            return Expr(f"sg('{name}')", GLOBALS[name])
        return self.variable("@" + node.name)

    def variable(self, written: str) -> Expr:
        name = written.lower()
        kind = self.variables.get(name)
        if kind is None:
            raise errors.undeclared_variable(written)
        if name not in self.parameters:
            self.parameters.append(name)
        return Expr(f"?{self.parameters.index(name) + 1}", kind)

    def _column(self, node: exp.Expr, scope: Scope) -> Expr:
        assert isinstance(node, exp.Column)
        qualifier = [part.name for part in node.parts[:-1]]
        if isinstance(node.this, exp.Star):
            raise errors.syntax("*")
        identifier = node.this
        if function_calls.is_word(node):
            return function_calls.session_call(node.name.upper(), [])
        try:
            found = scope.column(node.name, qualifier, self.names.fold)
        except SqlError:
            if not identifier.args.get("quoted") and node.name.upper() in RESERVED:
                raise errors.keyword_syntax(node.name) from None
            raise
        if self.grouped is not None and any(found is o.expr for r in scope.relations for o in r.columns):
            raise errors.ungrouped(".".join([*qualifier, node.name]), self.ungrouped)
        return found

    # -- calls and what else has a form of its own

    def _case(self, node: exp.Expr, scope: Scope) -> Expr:
        operand = node.this
        branches = node.args.get("ifs") or []
        values = [self.expression(branch.args["true"], scope) for branch in branches]
        default = node.args.get("default")
        otherwise = self.expression(default, scope) if default is not None else None
        kind = self.unify([*values, *([otherwise] if otherwise else [])])
        parts = []
        for branch, value in zip(branches, values, strict=True):
            test = exp.EQ(this=operand, expression=branch.this) if operand is not None else branch.this
            parts.append(f"WHEN {self.condition(test, scope)} THEN {self.represented(value, kind).sql}")
        if otherwise is not None:
            parts.append(f"ELSE {self.represented(otherwise, kind).sql}")
        nullable = otherwise is None or otherwise.nullable or any(value.nullable for value in values)
        found = Expr(f"CASE {' '.join(parts)} END", kind, nullable)
        return self.labelled(found, [*values, *([otherwise] if otherwise else [])], "CASE")

    def _call(self, node: exp.Expr, scope: Scope) -> Expr:
        name = str(node.name).upper()
        if isinstance(node.this, exp.Identifier) and node.this.args.get("quoted"):
            raise errors.unknown_function(node.name)
        arguments = list(node.expressions)
        special = SPECIAL.get(name)
        if special is not None:
            return special(self, name, arguments, scope)
        if name in AGGREGATES:
            assert isinstance(node, exp.Anonymous)
            return self.aggregate(node, name, scope)
        if name in date_functions.PART_FUNCTIONS:
            return function_calls.part_call(self, name, arguments, scope)
        function_calls.check_known(name)
        values = [self.expression(argument, scope) for argument in arguments]
        if name in SESSION_FUNCTIONS:
            return function_calls.session_call(name, values)
        return function_calls.builtin(self, name, values)

    def _collate(self, node: exp.Expr, scope: Scope) -> Expr:
        value = self.expression(node.this, scope)
        name = collation_named(node.expression.name, self.names.collation)
        if value.is_null:
            return value
        if family(value.type) != "string" or value.type.name == "xml":
            raise SqlError(447, f"Expression type {value.type.name} is invalid for COLLATE clause.", 16)
        if value.strength == EXPLICIT:
            text = (
                "Collation conflict caused by collate clauses with different collation "
                f"'{name or SERVER_DEFAULT}' and '{value.type.collation or SERVER_DEFAULT}'."
            )
            raise SqlError(449, text, 16)
        kind = collated(value.type, name)
        page = code_page(kind)
        found = replace(value, type=kind, strength=EXPLICIT, conflict=None)
        if is_unicode(kind) or page == code_page(self.typed(value)):
            return found
        written = self.call(("page", page), lambda: strict(lambda text: kept(str(text), page)), [value], kind)
        return replace(found, sql=written.sql, constant=None)

    def _subquery(self, node: exp.Expr, scope: Scope) -> Expr:
        return self.scalar_subquery(node, scope)

    def _window(self, node: exp.Expr, scope: Scope) -> Expr:
        assert isinstance(node, exp.Window)
        return self.window(node, scope)

    def _within_group(self, node: exp.Expr, scope: Scope) -> Expr:
        assert isinstance(node, exp.WithinGroup)
        return self.within_group(node, scope)


def _same_form(source: SqlType, target: SqlType) -> bool:
    group = family(source)
    if group != family(target):
        return False
    if group == "string":
        return target.name not in ("char", "nchar")
    if group == "int":
        return target.name != "bit"
    return (group == "float" and target.name == "float") or (
        group == "binary" and target.name not in ("binary", "rowversion")
    )


Handler = Callable[[Expressions, exp.Expr, Scope], Expr]
_HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Literal: constants.literal,
    exp.National: constants.national,
    exp.HexString: constants.binary_string,
    exp.Null: constants.null,
    exp.Parameter: Expressions._variable,
    exp.Column: Expressions._column,
    exp.Paren: operators.parenthesis,
    exp.Neg: operators.negative,
    exp.BitwiseNot: operators.inverted,
    exp.Case: Expressions._case,
    exp.Anonymous: Expressions._call,
    exp.Dot: function_calls.method,
    exp.AtTimeZone: function_calls.at_time_zone,
    exp.Collate: Expressions._collate,
    exp.Subquery: Expressions._subquery,
    exp.Select: Expressions._subquery,
    exp.Window: Expressions._window,
    exp.WithinGroup: Expressions._within_group,
    **dict.fromkeys(operators.SYMBOLS, operators.binary),
}
