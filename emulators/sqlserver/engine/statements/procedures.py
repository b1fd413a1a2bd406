"""EXEC and procedure calls by RPC: sp_executesql, and the procedures of other modules and of the extension. There are none of users' own.

An extension's procedure that writes while the session's transaction holds the writer lock joins that transaction (store/database.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from emulators.sqlserver.engine.extension import ProcedureFailed, ProcedureSpec
from emulators.sqlserver.engine.functions.lock_procedures import LockProcedures
from emulators.sqlserver.engine.functions.object_lookup import split_name
from emulators.sqlserver.engine.queries.names import local
from emulators.sqlserver.engine.queries.refusals import refused_procedure
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.engine.statements import catalog_procedures, configuring, principals, renaming
from emulators.sqlserver.results import (
    Event,
    Parameter,
    ReturnStatus,
    ReturnValue,
    SqlError,
    Value,
)
from emulators.sqlserver.sqltypes import SqlType
from emulators.sqlserver.tsql import errors
from emulators.sqlserver.tsql.reading import statements as st
from emulators.sqlserver.tsql.reading.fragments import Fragment
from emulators.sqlserver.tsql.reading.reader import Reader
from emulators.sqlserver.tsql.reading.tokens import END, tokenize
from emulators.sqlserver.tsql.values.convert import converter
from emulators.sqlserver.tsql.values.types import INT

Typed = tuple[SqlType, Value]


@dataclass(frozen=True, slots=True)
class _Given:
    """An argument; `value` None: DEFAULT. `variable`: what an OUTPUT argument writes back to."""

    name: str
    value: Typed | None
    variable: str = ""


class Procedures:
    """Procedure calls of one session. `run_text` runs a nested batch; `run_prepared` one whose values come beside it."""

    def __init__(
        self,
        session: StatementSession,
        run_text: Callable[[str], Iterator[Event]],
        run_prepared: Callable[[str], Iterator[Event]],
    ) -> None:
        self.session = session
        self._run_text, self._run_prepared = run_text, run_prepared

    def execute(self, statement: st.Execute) -> Iterator[Event]:
        given = [
            _Given(a.name, None if a.value is None else self._value(a, a.value), a.output) for a in statement.arguments
        ]
        if statement.result and statement.result not in self.session.variables:
            raise errors.undeclared_variable(statement.result)
        status = 0
        try:
            for event in self._call(statement.procedure, given):
                if isinstance(event, ReturnValue):
                    self._assign(event.name, event.type, event.value)
                    continue
                if isinstance(event, ReturnStatus):
                    status = event.value
                yield event
        except SqlError as error:
            status = _status_of(error)
            raise
        finally:
            if statement.result:
                self._assign(statement.result, INT, status)

    def _value(self, argument: st.Argument, written: Fragment) -> Typed:
        if argument.constant is not None:
            return self.session.runner.literal(*argument.constant)
        known = self.session.variables.get(argument.variable) if argument.variable else None
        return self.session.runner.value(written) if known is None else known

    def _assign(self, variable: str, kind: SqlType, value: Value) -> None:
        known = self.session.variables.get(variable)
        if known is None:
            raise errors.undeclared_variable(variable)
        stored = None if value is None else converter(kind, known[0])(value)
        self.session.variables[variable] = (known[0], stored)

    def execute_text(self, statement: st.ExecuteText) -> Iterator[Event]:
        text = self.session.runner.value(statement.text)[1]
        yield from self._nested(self._run_text, str(text or ""), {})

    def call_by_rpc(self, name: str, parameters: Sequence[Parameter]) -> Iterator[Event]:
        parts = split_name(name)
        if parts is None:
            raise errors.unknown_procedure(name)
        given = [
            _Given(p.name.lower(), None if p.default else (p.type, p.value), p.name.lower() if p.output else "")
            for p in parameters
        ]
        yield from self._call(parts, given)

    def _call(self, name: st.Name, given: Sequence[_Given]) -> Iterator[Event]:
        session = self.session
        shown = ".".join(name)
        name = local(name) if len(name) > 3 else name
        database = session.engine.find(name[-3]) if len(name) > 2 and name[-3] else session.current()
        if database is None:
            raise errors.unknown_procedure(shown)
        if database is not session.current():
            session.admitted(database)
        short = name[-1].lower()
        if short == "sp_executesql":
            yield from self._executesql(given)
            return
        key = f"{name[-2].lower() if len(name) > 1 and name[-2] else 'sys'}.{short}"
        extension = session.engine.extension
        own = {
            **principals.procedures(session),
            **catalog_procedures.procedures(session),
            **LockProcedures(session).specs(),
            **configuring.procedures(session),
            **renaming.procedures(session),
        }
        specs = {**own, **(extension.procedures() if extension is not None else {})}
        spec = specs.get(key) or (specs.get(f"sys.{short}") if key.startswith("dbo.") else None)
        if spec is None:
            raise refused_procedure(short) or errors.unknown_procedure(shown)
        arguments = self._arguments(spec, short, given)
        targets = _outputs(spec, given)
        status = 0
        try:
            for event in spec.run(session.runner.context(database), arguments):
                if isinstance(event, ReturnStatus):
                    status = event.value
                elif isinstance(event, ReturnValue):
                    if event.name in targets:
                        yield ReturnValue(targets[event.name], event.type, event.value)
                else:
                    yield event
        except SqlError as error:
            yield ReturnStatus(_status_of(error))
            raise
        yield ReturnStatus(status)

    def _arguments(self, spec: ProcedureSpec, name: str, given: Sequence[_Given]) -> dict[str, Value]:
        """Arguments by lower-case name. Raises 119, 201, 8144, 8145."""
        known = {parameter.lower(): parameter for parameter in spec.parameters}
        arguments: dict[str, Value] = {}
        named = False
        for index, argument in enumerate(given):
            if argument.name:
                named = True
                if argument.name.lower() not in known:
                    raise errors.not_a_parameter(argument.name, name)
                key = argument.name.lower()
            elif named:
                text = f"Must pass parameter number {index + 1} and subsequent parameters as '@name = value'."
                raise SqlError(119, text, 15)
            elif index >= len(spec.parameters):
                raise errors.too_many_arguments(name)
            else:
                key = spec.parameters[index].lower()
            if argument.value is not None:
                arguments[key] = argument.value[1]
        for required in spec.required:
            if required.lower() not in arguments:
                raise errors.missing_parameter(name, required)
        return arguments

    # -- sp_executesql

    def _executesql(self, given: Sequence[_Given]) -> Iterator[Event]:
        """Its status is @@ERROR as the text leaves it: 0, or what its last statement failed with."""
        if not given or given[0].value is None:
            raise errors.missing_parameter("sp_executesql", "@statement")
        text, declared = _unicode(given[0], "@statement"), _declared(_unicode(given[1], "@params") if given[1:] else "")
        variables: dict[str, Typed] = {name: (kind, None) for name, kind in declared.items()}
        outputs: dict[str, str] = {}
        found = set[str]()
        for index, argument in enumerate(given[2:]):
            if not argument.name and index >= len(declared):
                raise errors.too_many_arguments("sp_executesql")
            name = argument.name.lower() or list(declared)[index]
            if name not in declared:
                raise errors.not_a_parameter(name, "sp_executesql")
            if name in found:
                raise errors.supplied_twice(name, "sp_executesql")
            found.add(name)
            if argument.value is not None:
                kind, value = argument.value
                variables[name] = (declared[name], None if value is None else converter(kind, declared[name])(value))
            if argument.variable:
                outputs[name] = argument.variable
        if missing := next((name for name in declared if name not in found), None):
            raise errors.missing_value(_unicode(given[1], "@params"), text, missing)
        self.session.last_error = 0
        yield from self._nested(self._run_prepared if declared else self._run_text, text, variables, outputs)
        yield ReturnStatus(self.session.last_error)

    def _nested(
        self,
        run: Callable[[str], Iterator[Event]],
        text: str,
        variables: dict[str, Typed],
        outputs: Mapping[str, str] | None = None,
    ) -> Iterator[Event]:
        """Text in its own scope of variables; `outputs`: inner name -> outer variable."""
        session = self.session
        outer, session.variables = session.variables, variables
        try:
            with session.scope():
                yield from run(text)
                session.settle()
        finally:
            inner, session.variables = session.variables, outer
        for name, target in (outputs or {}).items():
            kind, value = inner[name]
            if target in outer:
                outer[target] = (outer[target][0], None if value is None else converter(kind, outer[target][0])(value))


def _status_of(error: SqlError) -> int:
    return error.status if isinstance(error, ProcedureFailed) else 1


def _outputs(spec: ProcedureSpec, given: Sequence[_Given]) -> dict[str, str]:
    """The lower-case OUTPUT parameters that were asked for, and the variables they go to. Raises 8162."""
    targets: dict[str, str] = {}
    for index, argument in enumerate(given):
        if not argument.variable:
            continue
        name = argument.name.lower() or spec.parameters[index].lower()
        if name not in spec.outputs:
            text = (
                f'The formal parameter "{name}" was not declared as an OUTPUT parameter, but the actual parameter passed in '
                "requested output."
            )
            raise SqlError(8162, text, 16, 2)
        targets[name] = argument.variable
    return targets


def _unicode(argument: _Given, parameter: str) -> str:
    """A text that sp_executesql gets. Raises 214."""
    if argument.value is None or (value := argument.value[1]) is None:
        return ""
    if not isinstance(value, str) or argument.value[0].name not in ("nvarchar", "nchar", "ntext", "sysname"):
        raise errors.not_unicode(parameter)
    return value


@lru_cache(maxsize=1024)
def _declared(text: str) -> Mapping[str, SqlType]:
    """The parameter list of sp_executesql: "@a int, @b nvarchar(10) OUTPUT"."""
    reader = Reader(text, tokenize(text))
    declared: dict[str, SqlType] = {}
    while reader.here.kind != END:
        name = reader.variable()
        reader.accept("AS")
        declared[name] = reader.type()
        if reader.accept("="):
            raise errors.unsupported("a default in the parameters of sp_executesql")
        if not reader.accept("OUTPUT"):
            reader.accept("OUT")
        if reader.here.kind != END:
            reader.expect(",")
    return declared
