"""Lowers scalar expressions to SQLite's SQL, knowing the T-SQL type of each. Only the nodes named here pass; the rest is refused.

NULL needs no type, strings compare under their collation, integers divide whole, decimals go to Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from emulators.sqlserver.codepages import kept
from emulators.sqlserver.collation import SERVER_DEFAULT, known
from emulators.sqlserver.results import Column, SqlError, Value
from emulators.sqlserver.sqltypes import MAX, SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.functions import date_functions
from emulators.sqlserver.tsql.functions.function_table import BUILTINS, REFUSED, refused
from emulators.sqlserver.tsql.functions.session_functions import GLOBALS, SESSION_FUNCTIONS, WITHOUT_PARENTHESES
from emulators.sqlserver.tsql.planning.plans import Expr, Names, Virtual
from emulators.sqlserver.tsql.planning.precedence import (
    COERCIBLE,
    EXPLICIT,
    IMPLICIT,
    Label,
    combined,
    settled,
    unresolved,
)
from emulators.sqlserver.tsql.planning.scopes import Scope
from emulators.sqlserver.tsql.planning.special_calls import SPECIAL
from emulators.sqlserver.tsql.reading import fragments
from emulators.sqlserver.tsql.values import arithmetic
from emulators.sqlserver.tsql.values.calls import Call, register
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.types import (
    INT,
    code_page,
    collated,
    collation,
    collation_named,
    family,
    is_unicode,
    literal_shape,
    merged,
)
from emulators.sqlserver.tsql.values.types import arithmetic as arithmetic_type

AGGREGATES = frozenset(("COUNT", "COUNT_BIG", "SUM", "AVG", "MIN", "MAX", "STRING_AGG"))
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}


def quoted(value: Value) -> str:
    """A storage form as a SQLite literal."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str):
        if "\0" in value:
            return f"CAST(x'{value.encode().hex()}' AS TEXT)"
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


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
        if self.grouped is not None and not isinstance(node, exp.Literal) and node in self.grouped:
            grouped, self.grouped = self.grouped, None
            try:
                return self.expression(node, scope)
            finally:
                self.grouped = grouped
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise errors.unsupported(_describe(node))
        return handler(self, node, scope)

    def call(self, key: tuple[object, ...], make: Callable[[], Call], arguments: Sequence[Expr], kind: SqlType) -> Expr:
        number = register(key, make)
        listed = "".join(f", {argument.sql}" for argument in arguments)
        return Expr(f"fn({number}{listed})", kind)

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

    # -- leaves

    def _literal(self, node: exp.Expr, scope: Scope) -> Expr:
        if node.args.get("is_string"):
            return _text_constant(kept(node.name, known(self.names.collation).code_page), "varchar", 8000)
        kind, value = fragments.number(node.name)
        return Expr(quoted(value), kind, False, constant=value)

    def _national(self, node: exp.Expr, scope: Scope) -> Expr:
        return _text_constant(node.name, "nvarchar", 4000)

    def _hex(self, node: exp.Expr, scope: Scope) -> Expr:
        digits = node.name
        data = bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
        return Expr(quoted(data), SqlType("varbinary", len(data) or 1), False, constant=data)

    def _null(self, node: exp.Expr, scope: Scope) -> Expr:
        return Expr("NULL", INT, is_null=True)

    def _variable(self, node: exp.Expr, scope: Scope) -> Expr:
        if isinstance(node.this, exp.Parameter):
            name = node.this.name.upper()
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
        if not qualifier and not identifier.args.get("quoted") and node.name.upper() in WITHOUT_PARENTHESES:
            return self.session_call(node.name.upper(), [])
        found = scope.column(node.name, qualifier, self.names.fold)
        if self.grouped is not None and any(found is o.expr for r in scope.relations for o in r.columns):
            text = (
                f"Column '{'.'.join([*qualifier, node.name])}' is invalid in the select list because it is not contained in "
                "either an aggregate function or the GROUP BY clause."
            )
            raise SqlError(8120, text, 16)
        return found

    # -- operators

    def _paren(self, node: exp.Expr, scope: Scope) -> Expr:
        inner = self.expression(node.this, scope)
        return replace(inner, sql=f"({inner.sql})")

    def _negative(self, node: exp.Expr, scope: Scope) -> Expr:
        value = self.expression(node.this, scope)
        if isinstance(value.constant, int | float):
            return Expr(quoted(-value.constant), value.type, False, constant=-value.constant)
        if isinstance(value.constant, str) and family(value.type) == "exact":
            return Expr(quoted("-" + value.constant), value.type, False, constant="-" + value.constant)
        if family(value.type) not in ("int", "exact", "float"):
            raise errors.invalid_operator(value.type.name, "minus")
        kind = INT if value.type.name in ("bit", "tinyint") else value.type
        return self.call(("negative", kind), lambda: arithmetic.negated(kind), [value], kind)

    def _inverted(self, node: exp.Expr, scope: Scope) -> Expr:
        value = self.expression(node.this, scope)
        if family(value.type) != "int":
            raise errors.invalid_operator(value.type.name, "'~'")
        sql = f"(1 - {value.sql})" if value.type.name == "bit" else f"(~{value.sql})"
        return Expr(sql, value.type, value.nullable)

    def _binary(self, node: exp.Expr, scope: Scope) -> Expr:
        assert isinstance(node, exp.Binary)
        symbol = _OPERATORS[type(node)]
        left, right = self.expression(node.left, scope), self.expression(node.right, scope)
        if left.is_null or right.is_null:
            kind = right.type if left.is_null else left.type
            return Expr("NULL", kind, is_null=left.is_null and right.is_null)
        groups = (family(left.type), family(right.type))
        if symbol == "+" and groups == ("string", "string"):
            joined = Expr(f"({left.sql} || {right.sql})", _concatenated(left.type, right.type))
            return self.labelled(joined, [left, right], "add")
        if symbol == "+" and groups == ("binary", "binary"):
            kind = _concatenated(left.type, right.type)
            return self.call(("bytes+",), lambda: arithmetic.joined_bytes, [left, right], kind)
        if "date" in groups:
            return self._date_arithmetic(symbol, left, right)
        left, right = _numbers(self, left, right, symbol)
        kind = arithmetic_type(
            symbol,
            literal_shape(left.type, left.constant, right.type),
            literal_shape(right.type, right.constant, left.type),
        )
        if symbol in "&|^" and family(kind) != "int":
            raise errors.invalid_operator(kind.name, f"'{symbol}'")
        make = {"int": arithmetic.whole, "float": arithmetic.floating}.get(family(kind), arithmetic.exact)
        return self.call((symbol, kind), lambda: make(symbol, kind), [left, right], kind)

    def _date_arithmetic(self, symbol: str, left: Expr, right: Expr) -> Expr:
        if family(left.type) != "date" and symbol == "+":
            left, right = right, left
        kind = left.type
        old = ("datetime", "smalldatetime")
        if family(left.type) == "date" == family(right.type):
            if symbol not in "+-" or left.type.name not in old or right.type.name not in old:
                raise errors.incompatible(left.type.name, right.type.name, symbol)
            both = (left.type, right.type)
            kind = merged(*both)
            return self.call(
                ("dates", symbol, both), lambda: arithmetic.dates(symbol, *both, kind), [left, right], kind
            )
        if kind.name not in old or symbol not in "+-" or family(right.type) not in ("int", "exact", "float"):
            raise errors.type_clash(left.type.name, right.type.name)
        return self.call(("days", symbol, kind), lambda: arithmetic.days(symbol, kind), [left, right], kind)

    # -- functions

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
            return self._part_call(name, arguments, scope)
        values = [self.expression(argument, scope) for argument in arguments]
        if name in SESSION_FUNCTIONS:
            return self.session_call(name, values)
        return self.builtin(name, values)

    def builtin(self, name: str, values: Sequence[Expr]) -> Expr:
        if name in REFUSED:
            raise refused(name)
        found = BUILTINS.get(name)
        if found is None:
            raise errors.unknown_function(name)
        if len(values) < found.least or (found.most >= 0 and len(values) > found.most):
            raise errors.argument_count(name.lower(), found.least)
        label = self.together(values, name.lower())
        if not name.startswith("CONCAT"):
            settled(label, name.lower())
        types = tuple(collated(value.type, label.name) for value in values)
        if name == "CHAR":  # its number is a byte of the database's code page
            types = (replace(types[0], collation=label.name),)
        kind, run = found.make(types)
        if not found.nulls:
            run = _strict(run)
        return self.labelled(self.call((name, types), lambda: run, values, kind), values, name.lower())

    def session_call(self, name: str, values: Sequence[Expr]) -> Expr:
        least, most, kind = SESSION_FUNCTIONS[name]
        if not least <= len(values) <= most:
            raise errors.argument_count(name.lower(), least)
        listed = "".join(f", {value.sql}" for value in values)
        return Expr(f"sfn('{name}'{listed})", kind)

    def _part_call(self, name: str, arguments: Sequence[exp.Expr], scope: Scope) -> Expr:
        if len(arguments) != date_functions.PART_FUNCTIONS[name] + 1:
            raise errors.argument_count(name.lower(), date_functions.PART_FUNCTIONS[name] + 1)
        word = arguments[0]
        if not isinstance(word, exp.Column) or len(word.parts) != 1:
            raise SqlError(1023, f"Invalid parameter 1 specified for {name.lower()}.", 15)
        values = [self.expression(argument, scope) for argument in arguments[1:]]
        types = tuple(value.type for value in values)
        kind, run = date_functions.part_call(name, word.name, types)
        return self.call((name, word.name.lower(), types), lambda: _strict(run), values, kind)

    def _method(self, node: exp.Expr, scope: Scope) -> Expr:
        """schema.function(...): a function of the session's extension."""
        parts = _dotted(node)
        call = node.expression
        if parts is None or not isinstance(call, exp.Anonymous):
            raise errors.unsupported(_describe(node))
        values = [self.expression(argument, scope) for argument in call.expressions]
        name = (*parts, call.name)
        found = self.names.scalar_function(name, len(values))
        if found is None:
            text = (
                f'Cannot find either column "{parts[0]}" or the user-defined function or aggregate "{".".join(name)}", '
                "or the name is ambiguous."
            )
            raise SqlError(4121, text, 16)
        key, kind = found
        listed = "".join(f", {value.sql}" for value in values)
        return Expr(f"sfn({quoted(key)}{listed})", kind)

    def _at_time_zone(self, node: exp.Expr, scope: Scope) -> Expr:
        value = self.expression(node.this, scope)
        zone = self.expression(node.args["zone"], scope)
        kind, run = date_functions.at_time_zone(value.type)
        return self.call(("zone", value.type), lambda: _strict(run), [value, zone], kind)

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
        written = self.call(("page", page), lambda: _strict(lambda text: kept(str(text), page)), [value], kind)
        return replace(found, sql=written.sql, constant=None)

    def _subquery(self, node: exp.Expr, scope: Scope) -> Expr:
        return self.scalar_subquery(node, scope)

    def _window(self, node: exp.Expr, scope: Scope) -> Expr:
        assert isinstance(node, exp.Window)
        return self.window(node, scope)

    def _within_group(self, node: exp.Expr, scope: Scope) -> Expr:
        assert isinstance(node, exp.WithinGroup)
        return self.within_group(node, scope)


def _describe(node: exp.Expr) -> str:
    text = node.sql(dialect="tsql")
    return f"{type(node).__name__} ({text[:80]})"


def _text_constant(text: str, name: str, limit: int) -> Expr:
    size = len(text) or 1
    return Expr(quoted(text), SqlType(name, size if size <= limit else MAX), False, constant=text)


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


def _strict(run: Call) -> Call:
    def call(*values: Value) -> Value:
        return None if None in values else run(*values)

    return call


def _concatenated(left: SqlType, right: SqlType) -> SqlType:
    names = {left.name, right.name}
    name = (
        "varbinary" if family(left) == "binary" else "nvarchar" if any(n.startswith("n") for n in names) else "varchar"
    )
    if MAX in (left.length, right.length) or left.length is None or right.length is None:
        return SqlType(name, MAX)
    return SqlType(name, min(left.length + right.length, 4000 if name == "nvarchar" else 8000))


def _numbers(lowering: Expressions, left: Expr, right: Expr, symbol: str) -> tuple[Expr, Expr]:
    """A string beside a number becomes that number's type; two strings have no arithmetic."""
    groups = family(left.type), family(right.type)
    numeric = ("int", "exact", "float")
    if groups[0] == "string" and groups[1] in numeric:
        return lowering.cast(left, right.type), right
    if groups[1] == "string" and groups[0] in numeric:
        return left, lowering.cast(right, left.type)
    if groups[0] == "binary" and groups[1] == "int":
        return lowering.cast(left, right.type), right
    if groups[1] == "binary" and groups[0] == "int":
        return left, lowering.cast(right, left.type)
    if groups[0] not in numeric or groups[1] not in numeric:
        bad = left if groups[0] not in numeric else right
        raise errors.invalid_operator(
            bad.type.name, {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}.get(symbol, symbol)
        )
    return left, right


def _dotted(node: exp.Expr) -> tuple[str, ...] | None:
    left = node.this
    if isinstance(left, exp.Identifier):
        return (left.name,)
    if isinstance(left, exp.Dot):
        inner = _dotted(left)
        return (*inner, left.expression.name) if inner else None
    if isinstance(left, exp.Column):
        return tuple(part.name for part in left.parts)
    return None


Handler = Callable[[Expressions, exp.Expr, Scope], Expr]
_HANDLERS: dict[type[exp.Expr], Handler] = {
    exp.Literal: Expressions._literal,
    exp.National: Expressions._national,
    exp.HexString: Expressions._hex,
    exp.Null: Expressions._null,
    exp.Parameter: Expressions._variable,
    exp.Column: Expressions._column,
    exp.Paren: Expressions._paren,
    exp.Neg: Expressions._negative,
    exp.BitwiseNot: Expressions._inverted,
    exp.Case: Expressions._case,
    exp.Anonymous: Expressions._call,
    exp.Dot: Expressions._method,
    exp.AtTimeZone: Expressions._at_time_zone,
    exp.Collate: Expressions._collate,
    exp.Subquery: Expressions._subquery,
    exp.Select: Expressions._subquery,
    exp.Window: Expressions._window,
    exp.WithinGroup: Expressions._within_group,
    **dict.fromkeys(_OPERATORS, Expressions._binary),
}
