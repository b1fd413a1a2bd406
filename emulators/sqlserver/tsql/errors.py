"""SQL Server's errors, by number, with Microsoft's texts. Makes exceptions; decides nothing.

Source: https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
"""

from __future__ import annotations

from emulators.sqlserver.results import SqlError

UNSUPPORTED = 50001
"""The number of what the real server may know and this one does not."""


def unsupported(construct: str) -> SqlError:
    """The emulator's own error: T-SQL that the real server may know and this one does not."""
    return SqlError(UNSUPPORTED, f"emulator: {construct} is not supported", 16)


def not_analyzed() -> SqlError:
    return SqlError(11501, "The batch could not be analyzed because of compile errors.", 16)


def no_path_without_error() -> SqlError:
    text = (
        "The metadata could not be determined because every code path results in an error; see previous errors for some "
        "of these."
    )
    return SqlError(11529, text, 16)


def too_deep() -> SqlError:
    return unsupported("an expression that is nested so deeply")


def nested_too_deeply() -> SqlError:
    text = (
        "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up into smaller queries."
    )
    return SqlError(191, text, 15)


def nested_calls() -> SqlError:
    text = "Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32)."
    return SqlError(217, text, 16)


def not_first(kind: str) -> SqlError:
    return SqlError(111, f"'{kind}' must be the first statement in a query batch.", 15)


def unterminated_merge() -> SqlError:
    return SqlError(10713, "A MERGE statement must be terminated by a semi-colon (;).", 15)


def invalid_collation(name: str) -> SqlError:
    return SqlError(448, f"Invalid collation '{name}'.", 16)


def syntax(near: str) -> SqlError:
    return SqlError(102, f"Incorrect syntax near '{near}'.", 15)


def keyword_syntax(near: str) -> SqlError:
    return SqlError(156, f"Incorrect syntax near the keyword '{near}'.", 15)


def undeclared_variable(name: str) -> SqlError:
    return SqlError(137, f'Must declare the scalar variable "{name}".', 15)


def undeclared_table(name: str) -> SqlError:
    return SqlError(1087, f'Must declare the table variable "{name}".', 15, 2)


def declared_twice(name: str) -> SqlError:
    text = (
        f"The variable name '{name}' has already been declared. Variable names must be unique within a query batch or "
        "stored procedure."
    )
    return SqlError(134, text, 15)


def invalid_object(name: str) -> SqlError:
    return SqlError(208, f"Invalid object name '{name}'.", 16)


def invalid_column(name: str) -> SqlError:
    return SqlError(207, f"Invalid column name '{name}'.", 16)


def computed_column(name: str) -> SqlError:
    text = f'The column "{name}" cannot be modified because it is either a computed column or is the result of a UNION operator.'
    return SqlError(271, text, 16)


def unknown_index(name: str, table: str) -> SqlError:
    text = f"Index '{name}' on table '{table}' (specified in the FROM clause) does not exist."
    return SqlError(308, text, 16)


def ambiguous_column(name: str) -> SqlError:
    return SqlError(209, f"Ambiguous column name '{name}'.", 16)


def unbound_identifier(name: str) -> SqlError:
    return SqlError(4104, f'The multi-part identifier "{name}" could not be bound.', 16)


def unknown_function(name: str) -> SqlError:
    return SqlError(195, f"'{name}' is not a recognized built-in function name.", 15)


def argument_count(name: str, count: int) -> SqlError:
    return SqlError(174, f"The {name} function requires {count} argument(s).", 15)


_REFUSED_TYPES = ("cursor", "geography", "geometry", "hierarchyid", "json", "sql_variant", "vector")


def unknown_type(name: str) -> SqlError:
    """2715, or the refusal of a type that the real server has."""
    if name.lower() in _REFUSED_TYPES:
        return unsupported(f"type {name}")
    return SqlError(2715, f"Column, parameter, or variable #1: Cannot find data type {name}.", 16, 6)


def conversion_failed(source: str, value: str, target: str) -> SqlError:
    return SqlError(245, f"Conversion failed when converting the {source} value '{value}' to data type {target}.", 16)


def conversion_overflow(source: str, value: str, target: str) -> SqlError:
    return SqlError(248, f"The conversion of the {source} value '{value}' overflowed an {target} column.", 16)


def converting(source: str, target: str) -> SqlError:
    return SqlError(8114, f"Error converting data type {source} to {target}.", 16, 5)


def date_conversion() -> SqlError:
    return SqlError(241, "Conversion failed when converting date and/or time from character string.", 16)


def date_range(source: str, target: str) -> SqlError:
    text = f"The conversion of a {source} data type to a {target} data type resulted in an out-of-range value."
    return SqlError(242, text, 16, 3)


def date_overflow(target: str) -> SqlError:
    return SqlError(517, f"Adding a value to a '{target}' column caused an overflow.", 16)


def arithmetic_overflow(target: str) -> SqlError:
    return SqlError(8115, f"Arithmetic overflow error converting expression to data type {target}.", 16, 2)


def numeric_overflow(source: str, target: str) -> SqlError:
    return SqlError(8115, f"Arithmetic overflow error converting {source} to data type {target}.", 16, 8)


def small_overflow(target: str, value: int) -> SqlError:
    return SqlError(220, f"Arithmetic overflow error for data type {target}, value = {value}.", 16)


def divide_by_zero() -> SqlError:
    return SqlError(8134, "Divide by zero error encountered.", 16)


def guid_conversion() -> SqlError:
    return SqlError(8169, "Conversion failed when converting from a character string to uniqueidentifier.", 16, 2)


def explicit_conversion(source: str, target: str) -> SqlError:
    return SqlError(529, f"Explicit conversion from data type {source} to {target} is not allowed.", 16)


def implicit_conversion(source: str, target: str) -> SqlError:
    text = (
        f"Implicit conversion from data type {source} to {target} is not allowed. "
        "Use the CONVERT function to run this query."
    )
    return SqlError(257, text, 16, 3)


def type_clash(left: str, right: str) -> SqlError:
    return SqlError(206, f"Operand type clash: {left} is incompatible with {right}", 16, 2)


_OPERATOR_NAMES = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "%": "modulo",
    "&": "'&'",
    "|": "'|'",
    "^": "'^'",
    "=": "equal to",
    "<>": "not equal to",
    "<": "less than",
    "<=": "less than or equal to",
    ">": "greater than",
    ">=": "greater than or equal to",
}


def incompatible(left: str, right: str, symbol: str) -> SqlError:
    name = _OPERATOR_NAMES.get(symbol, symbol)
    return SqlError(402, f"The data types {left} and {right} are incompatible in the {name} operator.", 16)


def invalid_operator(kind: str, name: str) -> SqlError:
    return SqlError(8117, f"Operand data type {kind} is invalid for {name} operator.", 16)


def scalar_subquery() -> SqlError:
    text = (
        "Subquery returned more than 1 value. This is not permitted when the subquery follows "
        "=, !=, <, <= , >, >= or when the subquery is used as an expression."
    )
    return SqlError(512, text, 16)


def truncated(table: str, column: str, value: str) -> SqlError:
    text = (
        f"String or binary data would be truncated in table '{table}', column '{column}'. Truncated value: '{value}'."
    )
    return SqlError(2628, text, 16)


def null_refused(column: str, table: str, statement: str) -> SqlError:
    text = (
        f"Cannot insert the value NULL into column '{column}', table '{table}'; "
        f"column does not allow nulls. {statement} fails."
    )
    return SqlError(515, text, 16, 2)


def duplicate_key(kind: str, constraint: str, table: str, values: str) -> SqlError:
    """`kind`: PRIMARY KEY or UNIQUE KEY."""
    text = (
        f"Violation of {kind} constraint '{constraint}'. Cannot insert duplicate key in object '{table}'. "
        f"The duplicate key value is ({values})."
    )
    return SqlError(2627, text, 14)


def duplicate_index_key(index: str, table: str, values: str) -> SqlError:
    text = (
        f"Cannot insert duplicate key row in object '{table}' with unique index '{index}'. "
        f"The duplicate key value is ({values})."
    )
    return SqlError(2601, text, 14)


def unknown_database(name: str) -> SqlError:
    text = f"Database '{name}' does not exist. Make sure that the name is entered correctly."
    return SqlError(911, text, 16)


def unknown_server(name: str) -> SqlError:
    text = (
        f"Could not find server '{name}' in sys.servers. Verify that the correct server name was specified. If necessary, "
        "execute the stored procedure sp_addlinkedserver to add the server to sys.servers."
    )
    return SqlError(7202, text, 11, 2)


def ungrouped(column: str, number: int) -> SqlError:
    """`number`: 8120, 8121 or 8127, by the clause that the column stands in."""
    clause = {8120: "select list", 8121: "HAVING clause", 8127: "ORDER BY clause"}[number]
    quoted = f'"{column}"' if number == 8127 else f"'{column}'"
    text = (
        f"Column {quoted} is invalid in the {clause} because it is not contained in either an aggregate function or the "
        "GROUP BY clause."
    )
    return SqlError(number, text, 16)


_UNLESS = "unless it is in a subquery contained in a HAVING clause or a select list, and the column being aggregated is an outer reference"
_MISPLACED = {
    130: "Cannot perform an aggregate function on an expression containing an aggregate or a subquery.",
    144: "Cannot use an aggregate or a subquery in an expression used for the group by list of a GROUP BY clause.",
    147: f"An aggregate may not appear in the WHERE clause {_UNLESS}.",
    157: "An aggregate may not appear in the set list of an UPDATE statement.",
    1015: f"An aggregate cannot appear in an ON clause {_UNLESS}.",
}


def misplaced_aggregate(number: int) -> SqlError:
    return SqlError(number, _MISPLACED[number], 15)


def no_number_of_rows(*, skipped: bool) -> SqlError:
    if skipped:
        return SqlError(10743, "The number of rows provided for a OFFSET clause must be an integer.", 15)
    text = "The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer."
    return SqlError(1060, text, 15)


def negative_rows(*, skipped: bool) -> SqlError:
    if skipped:
        return SqlError(10742, "The offset specified in a OFFSET clause may not be negative.", 15)
    return SqlError(127, "A TOP N or FETCH rowcount value may not be negative.", 15)


def misplaced_window(*, within: bool) -> SqlError:
    """`within`: an aggregate or another window function."""
    if within:
        text = "Windowed functions cannot be used in the context of another windowed function or aggregate."
        return SqlError(4109, text, 15)
    return SqlError(4108, "Windowed functions can only appear in the SELECT or ORDER BY clauses.", 15)


def too_many_items(most: int) -> SqlError:
    text = f"The number of elements in the select list exceeds the maximum allowed number of {most} elements."
    return SqlError(1056, text, 15)


def no_explicit_identity() -> SqlError:
    return SqlError(339, "DEFAULT or NULL are not allowed as explicit identity values.", 16)


def object_exists(name: str) -> SqlError:
    return SqlError(2714, f"There is already an object named '{name}' in the database.", 16, 6)


def cannot_alter_database(name: str) -> SqlError:
    text = (
        f"User does not have permission to alter database '{name}', the database does not exist, or the database is not in "
        "a state that allows access checks."
    )
    return SqlError(5011, text, 14, 5)


def cannot_drop(kind: str, name: str) -> SqlError:
    text = f"Cannot drop the {kind} '{name}', because it does not exist or you do not have permission."
    return SqlError(3701, text, 11, 5)


def unknown_procedure(name: str) -> SqlError:
    return SqlError(2812, f"Could not find stored procedure '{name}'.", 16, 62)


def missing_parameter(procedure: str, parameter: str) -> SqlError:
    text = f"Procedure or function '{procedure}' expects parameter '{parameter}', which was not supplied."
    return SqlError(201, text, 16, 4, procedure)


def missing_value(parameters: str, statement: str, name: str) -> SqlError:
    text = (
        f"The parameterized query '({parameters}){statement}' expects the parameter '{name}', which was not supplied."
    )
    return SqlError(8178, text, 16)


def not_unicode(parameter: str) -> SqlError:
    return SqlError(214, f"Procedure expects parameter '{parameter}' of type 'ntext/nchar/nvarchar'.", 16, 2)


def too_many_arguments(procedure: str) -> SqlError:
    text = f"Procedure or function {procedure} has too many arguments specified."
    return SqlError(8144, text, 16, 2, procedure)


def not_a_parameter(parameter: str, procedure: str) -> SqlError:
    return SqlError(8145, f"{parameter} is not a parameter for procedure {procedure}.", 16, 2, procedure)


def supplied_twice(parameter: str, procedure: str) -> SqlError:
    return SqlError(8143, f"Parameter '{parameter}' was supplied multiple times.", 16, 2, procedure)


def permission_denied(permission: str, name: str, database: str, schema: str) -> SqlError:
    text = f"The {permission} permission was denied on the object '{name}', database '{database}', schema '{schema}'."
    return SqlError(229, text, 14, 5)


def column_denied(column: str, table: str, database: str, schema: str) -> SqlError:
    text = (
        f"The SELECT permission was denied on the column '{column}' of the object '{table}', database '{database}', schema "
        f"'{schema}'."
    )
    return SqlError(230, text, 14)


def lock_timeout() -> SqlError:
    return SqlError(1222, "Lock request time out period exceeded.", 16, 45)


def deadlock_victim(session_id: int) -> SqlError:
    text = (
        f"Transaction (Process ID {session_id}) was deadlocked on lock resources with another process and has been chosen as the "
        "deadlock victim. Rerun the transaction."
    )
    return SqlError(1205, text, 13, 51)


def snapshot_refused(database: str) -> SqlError:
    text = (
        f"Snapshot isolation transaction failed accessing database '{database}' because snapshot isolation is not "
        "allowed in this database. Use ALTER DATABASE to allow snapshot isolation."
    )
    return SqlError(3952, text, 16)
