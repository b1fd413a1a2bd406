"""The first step of reading `dstream.hcl`: Jinja2 expressions such as `{{ env "X" }}`.

A value never enters the text: a marker does, and the value takes the marker's place once HCL is parsed. So no character of a
password can break the file or be interpolated, no syntax error can show one, and lines keep their numbers.
Refuses statements (`{% ... %}`), names other than `env`, and whatever Jinja's sandbox refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from common.config.values import UNREADABLE, Problem, Unreadable, Unset, complain, is_text

_BARE_ENV = re.compile(r"""\s*env\s+("[^"]*"|'[^']*')\s*""")


@dataclass(frozen=True, slots=True)
class Rendered:
    """HCL with markers, and what each marker stands for. A marker is an HCL identifier that occurs nowhere in the source."""

    text: str
    prefix: str
    values: list[str | Unset | Unreadable] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def pieces(self, text: str) -> Iterator[str | Unset | Unreadable]:
        """`text` cut at its markers, each replaced by its value; line ends that a marker brought along are dropped."""
        for number, piece in enumerate(re.split(rf"{self.prefix}(\d+)_\n*", text)):
            yield self.values[int(piece)] if number % 2 else piece

    def holds_marker(self, text: str) -> bool:
        return self.prefix in text


class _VariableUnset(Exception):  # never leaves this module
    def __init__(self, variable: str) -> None:
        self.variable = variable


def render(source: str, *, path: str, environ: Mapping[str, str]) -> Rendered:
    """Evaluate each `{{ }}` of `source`. Errors of expressions go to `problems`, by line.

    Raises ConfigurationError when Jinja cannot tell expressions and text apart (`{{` that does not close).
    """
    jinja = _environment(environ)
    problems: list[Problem] = []
    out: list[str] = []
    values: list[str | Unset | Unreadable] = []
    prefix = "dstream_value_"
    while prefix in source:
        prefix += "x_"
    line = 1
    for kind, start, text in _segments(jinja, _with_plain_quotes(source), path):
        # Jinja drops some line ends (comments, `{{-`): what comes after them must not move up.
        padding = "\n" * (start - line)
        out.append(padding)
        line = start + text.count("\n")
        if kind == "data":
            out.append(text)
        elif kind == "expression":
            out.append(f"{prefix}{len(values)}_" + "\n" * text.count("\n"))
            values.append(_evaluate(jinja, text, start, path, problems))
        else:
            problems.append(Problem(start, "Jinja statements are not supported here: only {{ env(...) }} expressions"))
    return Rendered("".join(out), prefix, values, problems)


def _environment(environ: Mapping[str, str]) -> ImmutableSandboxedEnvironment:
    def env(variable: str, default: str | None = None) -> str:
        value = environ.get(variable, default)
        if value is None:
            raise _VariableUnset(variable)
        return value

    jinja = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    jinja.globals = {"env": env}
    return jinja


def _with_plain_quotes(source: str) -> str:
    r"""`{{ env \"X\" }}`, the spelling of files that a Go template rendered, becomes `{{ env "X" }}`."""

    def plain(found: re.Match[str]) -> str:
        first = found[0].find('"')
        return found[0].replace('\\"', '"') if first > 0 and found[0][first - 1] == "\\" else found[0]

    return re.sub(r"\{\{.*?\}\}", plain, source, flags=re.DOTALL)


def _segments(jinja: ImmutableSandboxedEnvironment, source: str, path: str) -> Iterator[tuple[str, int, str]]:
    """(kind, first line, text) of the data, expressions and statements of a template; comments leave nothing."""
    expression: list[str] = []
    began = 0
    try:
        for line, token, text in jinja.lexer.tokeniter(source, None):
            if token == "variable_begin":
                began, expression = line, []
            elif token == "variable_end":
                yield "expression", began, "".join(expression)
                began = 0
            elif began:
                expression.append(text)
            elif token == "data":
                yield "data", line, text
            elif token in ("block_begin", "raw_begin"):
                yield "statement", line, ""
    except TemplateSyntaxError as error:
        # The lexer stops where it no longer understands the text; the mistake is in the expression that it was reading.
        where = f"in the expression that begins here: {error.message}" if began else error.message
        raise complain(path, [Problem(began or error.lineno, f"template: {where}")]) from None
    if began:
        raise complain(path, [Problem(began, "template: {{ is not closed by }}")])


def _evaluate(
    jinja: ImmutableSandboxedEnvironment, text: str, line: int, path: str, problems: list[Problem]
) -> str | Unset | Unreadable:
    """The value of one expression that begins on `line`. Errors name types, never values: they may be secrets."""
    if (bare := _BARE_ENV.fullmatch(text)) is not None:
        text = f"env({bare[1]})"
    try:
        unknown = meta.find_undeclared_variables(jinja.parse("{{" + text + "}}")) - {"env"}
        value: Any = None if unknown else jinja.compile_expression(text, undefined_to_none=False)()
    except _VariableUnset as unset:
        return Unset(unset.variable, path, line)
    except TemplateSyntaxError as error:
        problems.append(Problem(line + error.lineno - 1, f"template: {error.message}"))
        return UNREADABLE
    except Exception as error:  # whatever a user's expression may raise
        problems.append(Problem(line, f"template: the expression fails with {type(error).__name__}"))
        return UNREADABLE
    if unknown:
        problems.append(Problem(line, f"template: unknown name {', '.join(sorted(unknown))}; only env is known here"))
        return UNREADABLE
    if not isinstance(value, str | int | float):
        problems.append(Problem(line, f"template: the expression gives {type(value).__name__}, not text"))
        return UNREADABLE
    told = str(value).lower() if isinstance(value, bool) else str(value)
    if not is_text(told):
        problems.append(Problem(line, "template: the value is not UTF-8"))
        return UNREADABLE
    return told
