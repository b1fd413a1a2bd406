"""The second step of reading `dstream.hcl`: HCL into blocks and values that know their lines.

Only literals are read: text, numbers, true, false, null, lists and maps. HCL's own expressions, functions and interpolation are
refused by line; python-hcl2 alone would hand them over as text.
https://github.com/hashicorp/hcl/blob/main/hclsyntax/spec.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import hcl2
from hcl2.rules.base import AttributeRule, BlockRule
from hcl2.rules.containers import ObjectElemKeyRule, ObjectElemRule, ObjectRule, TupleRule
from hcl2.rules.expressions import ExprTermRule, UnaryOpRule
from hcl2.rules.literal_rules import FloatLitRule, IdentifierRule, IntLitRule, LiteralValueRule
from hcl2.rules.strings import HeredocTemplateRule, StringRule
from hcl2.utils import SerializationOptions, process_escape_sequences
from lark.exceptions import UnexpectedInput, VisitError

from common.config.syntax import syntax_problem
from common.config.template import Rendered
from common.config.values import UNREADABLE, Block, Problem, Unreadable, Unset, Value, complain
from common.config.written import Written

_OPTIONS = SerializationOptions(strip_string_quotes=True, explicit_blocks=False, preserve_heredocs=False)
_NOT_LITERAL = "is an expression; only literal values and {{ env(...) }} are read here"
# An escape of a lone surrogate or past U+10FFFF is not a character, and python-hcl2 would leave it as it is.
_ESCAPED = re.compile(
    r"""(?: [^\\] | \\[nrt"\\] | \\u(?![dD][89a-fA-F])[0-9a-fA-F]{4} | \\U(?!0000[dD][89a-fA-F])00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4} )*""",
    re.VERBOSE,
)
_VARIABLE = re.compile(r"\$\{(?:env\.)?([A-Z][A-Z0-9_]*)\}")
_DOTTED = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)+")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


class _Refused(Exception):  # never leaves this module
    def __init__(self, line: int, text: str) -> None:
        self.problem = Problem(line, text)


def parse(rendered: Rendered, *, path: str) -> tuple[Block, list[Problem]]:
    """The file as one block without a name, and a problem for each value that is not a literal.

    Raises ConfigurationError for a syntax error: nothing after it can be understood.
    """
    try:
        body = hcl2.parses(rendered.text).body
    except UnexpectedInput as error:
        raise complain(path, [*rendered.problems, syntax_problem(error, rendered.text)]) from None
    except (VisitError, RuntimeError):  # template directives (`%{ if }`) that do not close
        unclosed = Problem(_directive_line(rendered.text), "syntax: a %{ } directive is not closed")
        raise complain(path, [*rendered.problems, unclosed]) from None
    problems = list(rendered.problems)
    return Block("", 1, list(_entries(body, rendered, problems))), problems


def _entries(body: Any, rendered: Rendered, problems: list[Problem]) -> Iterator[tuple[str, int, Value | Block]]:
    for child in body.children:
        if not isinstance(child, AttributeRule | BlockRule):
            continue  # comments and line ends
        line = _line(child)
        try:
            name = _name(child.identifier if isinstance(child, AttributeRule) else child.labels[0], rendered, line)
        except _Refused as refused:
            problems.append(refused.problem)
            continue
        if isinstance(child, AttributeRule):
            data = _readable(child.expression, rendered, name, problems)
            yield name, line, Value(line, data, *_origin(child.expression, rendered, data))
        else:
            try:
                label = _label(child, rendered, name, line)
            except _Refused as refused:
                problems.append(refused.problem)
                label = None
            yield name, line, Block(name, line, list(_entries(child.body, rendered, problems)), label)


def _label(block: BlockRule, rendered: Rendered, name: str, line: int) -> str | None:
    """Which blocks take one, and which labels they take, is for the models of settings to say."""
    if len(block.labels) > 2:
        raise _Refused(line, f'block "{name}" takes one label at most')
    if len(block.labels) == 1:
        return None
    label = block.labels[1]
    if not isinstance(label, StringRule):
        raise _Refused(line, f'block "{name}": a label must be in double quotes')
    if any(part.content.lark_name() != "STRING_CHARS" for part in label.string_parts):
        raise _Refused(line, f'block "{name}": a label is plain text')
    text = str(label.serialize(_OPTIONS))
    if rendered.holds_marker(text):
        raise _Refused(line, f'block "{name}": a value from the environment cannot be a label')
    return text


def _readable(node: Any, rendered: Rendered, setting: str, problems: list[Problem]) -> Any:
    try:
        return _data(node, rendered, setting)
    except _Refused as refused:
        problems.append(refused.problem)
        return UNREADABLE


def _name(identifier: Any, rendered: Rendered, line: int) -> str:
    name = str(identifier.serialize(_OPTIONS))
    if rendered.holds_marker(name):
        raise _Refused(line, "a value from the environment cannot name a setting")
    return name


def _data(node: Any, rendered: Rendered, setting: str) -> Any:
    """A node of python-hcl2's tree as plain data; raises _Refused."""
    line = _line(node)
    if isinstance(node, ExprTermRule):
        return _data(node.expression, rendered, setting)
    if isinstance(node, StringRule):
        return _joined(_text_parts(node, rendered, setting))
    if isinstance(node, HeredocTemplateRule):
        return _joined(rendered.pieces(_heredoc(node, line, setting)))
    if isinstance(node, IntLitRule):
        return _whole(node.token.value, line, setting)
    if isinstance(node, FloatLitRule):
        return float(node.token.value)
    if isinstance(node, LiteralValueRule):
        return {"true": True, "false": False, "null": None}[str(node.token.value)]
    if isinstance(node, UnaryOpRule) and node.operator == "-":
        number = _data(node.expr_term, rendered, setting)
        if isinstance(number, int | float) and not isinstance(number, bool):
            return -number
    if isinstance(node, IdentifierRule) and rendered.holds_marker(str(node.token.value)):
        return _unquoted(_joined(rendered.pieces(str(node.token.value))), line, setting)
    if isinstance(node, TupleRule):
        return [_item(item, rendered, setting) for item in node.elements]
    if isinstance(node, ObjectRule):
        return {
            _key(item, rendered): Value(_line(item), _data(item.expression, rendered, setting))
            for item in node.elements
        }
    if isinstance(node, IdentifierRule):
        raise _Refused(line, f'"{setting}": text must be in double quotes')
    raise _Refused(line, f'"{setting}" {_NOT_LITERAL}')


def _item(node: Any, rendered: Rendered, setting: str) -> Value:
    """One of a list. Its line is enough of a place."""
    data = _data(node, rendered, setting)
    return Value(_line(node), data, of_environment=_origin(node, rendered, data)[1])


def _origin(node: Any, rendered: Rendered, data: Any) -> tuple[Written | None, bool]:
    """How a text stands in the file, and whether it holds a value from the environment.

    The first is None for other values, and behind a marker, which is longer or shorter than what it stands for.
    """
    if isinstance(node, ExprTermRule):
        return _origin(node.expression, rendered, data)
    if not isinstance(data, str):
        return None, False
    if not isinstance(node, StringRule | HeredocTemplateRule):
        return None, True  # a marker without quotes: no other text has none
    meta, text = _meta(node), rendered.text
    before = text.rfind("\n", 0, meta.start_pos) + 1
    source = text[meta.start_pos : meta.end_pos]
    if rendered.holds_marker(text[before : meta.end_pos]):
        return None, rendered.holds_marker(source)
    return Written(int(meta.line), int(meta.column), source, data), False


def _line(node: Any) -> int:
    """The line a node begins on."""
    return int(_meta(node).line)


def _meta(node: Any) -> Any:
    """Where a node stands. `to_lark().meta` is the same, but makes the whole tree again, of each block inside of each."""
    return node._meta


def _key(element: ObjectElemRule, rendered: Rendered) -> str:
    meta = _meta(element)
    if _DOTTED.match(rendered.text, meta.start_pos):
        raise _Refused(_line(element), "a map's key with dots must be in double quotes")
    if not isinstance(element.key, ObjectElemKeyRule):
        raise _Refused(_line(element), f"a map's key {_NOT_LITERAL}")
    return _name(element.key, rendered, _line(element))


def _text_parts(node: StringRule, rendered: Rendered, setting: str) -> Iterator[str | Unset | Unreadable]:
    """The parts of a quoted text. `$${` and `%%{` are HCL's way to write `${` and `%{`."""
    line = _line(node)
    for part in node.string_parts:
        kind, text = part.content.lark_name(), str(part.content.serialize(_OPTIONS))
        if kind in ("ESCAPED_INTERPOLATION", "ESCAPED_DIRECTIVE"):
            yield from rendered.pieces(text[1:])
        elif kind != "STRING_CHARS":
            source = rendered.text[_meta(part.content).start_pos : _meta(part.content).end_pos]
            raise _interpolated(line, setting, source if len(node.string_parts) == 1 else "")
        else:
            for number, piece in enumerate(rendered.pieces(text)):
                of_the_file = number % 2 == 0 and isinstance(piece, str)
                yield _unescaped(str(piece), setting, line) if of_the_file else piece


def _interpolated(line: int, setting: str, source: str = "") -> _Refused:
    """`source`: an interpolation that is the whole text. Of one inside of a text, which may be a secret, nothing is shown."""
    named = _VARIABLE.fullmatch(source)
    variable = named[1] if named else "NAME"
    return _Refused(
        line,
        f'"{setting}" holds an interpolation; to read a variable write {{{{ env("{variable}") }}}}; $${{ or %%{{ are the characters themselves',
    )


def _unescaped(text: str, setting: str, line: int) -> str:
    """Escapes resolved. What python-hcl2 lets pass and HCL does not is refused: a line end, an unknown escape (`host\\instance`)."""
    if "\n" in text:
        raise _Refused(line, f'"{setting}": a quoted text ends on its own line; write \\n for a line end')
    if not _ESCAPED.fullmatch(text):
        raise _Refused(line, f'"{setting}" holds an escape that HCL does not know; write \\\\ for a backslash')
    return process_escape_sequences(text)


def _heredoc(node: HeredocTemplateRule, line: int, setting: str) -> str:
    text = str(node.serialize(_OPTIONS))
    if re.search(r"(?<!\$)\$\{|(?<!%)%\{", text):
        raise _interpolated(line, setting)
    return text.replace("$${", "${").replace("%%{", "%{")


def _joined(parts: Iterator[str | Unset | Unreadable]) -> str | Unset | Unreadable:
    whole = ""
    for part in parts:
        if isinstance(part, Unset | Unreadable):
            return part
        whole += part
    return whole


def _whole(text: str, line: int, setting: str) -> int:
    try:
        return int(text)
    except ValueError:  # Python reads no more than some thousand digits
        raise _Refused(line, f'"{setting}" has more digits than a number may have') from None


def _unquoted(value: str | Unset | Unreadable, line: int, setting: str) -> Any:
    """`slots = {{ env("N") }}`: what stands without quotes is a number or a truth value where it looks like one."""
    if isinstance(value, Unset | Unreadable):
        return value
    if value in ("true", "false"):
        return value == "true"
    if (number := _NUMBER.fullmatch(value)) is not None:
        return float(value) if number[1] else _whole(value, line, setting)
    return value


def _directive_line(text: str) -> int:
    return text.count("\n", 0, max(text.find("%{"), 0)) + 1
