"""Files of every shape, edited at random: nothing but what was asked for changes, comments stay, and every edit can be taken back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from desk.configuring.hcl.document import Inner, Setting, document, plain_of
from desk.configuring.hcl.draft import Draft, NewBlock, Path
from desk.configuring.hcl.literals import Env
from desk.configuring.hcl.original import MARK
from desk.configuring.revisions import difference, taken_back

NAMES = ("a", "tables", "poll_interval", "in_")
BLOCKS = ("b", "output", "overrides")
TEXTS = ("", "x", "sales.*", "a#b", "// no", "/* no */", "say } ] ,", "{topic}", "ž", "$x %y", "it's")
WRITTEN_ONLY = (
    '"q\\"uo\\\\te"',
    '"{{ env("X") }}"',
    '"a{{ env("X", "}}") }}b"',
    "{{ env('N', '3') }}",
    '"{{ env \\"Z\\" }}"',
    '"$${x}"',
)

blank = st.sampled_from(["", "", "", " ", "  ", "\t"])
indent = st.sampled_from(["", " ", "  ", "    ", "\t", "      "])
word = st.sampled_from(["note", 'x = "1"', "a { b", "}", "[,", '"', '{{ env("C") }}', "don't"])


@st.composite
def comment(draw: st.DrawFn, inline: bool = False) -> str:
    """A comment that needs no line end behind it if `inline`."""
    text = draw(word)
    if inline or draw(st.booleans()):
        between = "\n" if draw(st.integers(0, 5)) == 0 else " "
        return f"/* {text}{between}{draw(word)} */"
    return f"{draw(st.sampled_from(['#', '# ', '//', '#*']))}{text}"


@st.composite
def gap(draw: st.DrawFn) -> str:
    """Between entries of a list or map: blanks, comments, line ends."""
    kind = draw(st.integers(0, 6))
    if kind <= 3:
        return draw(blank)
    if kind == 4:
        return f" {draw(comment(inline=True))} "
    if kind == 5:
        return f"{draw(blank)}\n{draw(indent)}"
    return f" {draw(comment())}\n{draw(indent)}"


@st.composite
def scalar(draw: st.DrawFn) -> str:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return draw(st.sampled_from(WRITTEN_ONLY))
    if kind == 1:
        return draw(st.sampled_from(["true", "false", "null", "0", "17", "-4", "2.5"]))
    text = draw(st.sampled_from(TEXTS))
    return f'"{text}"'


@st.composite
def value(draw: st.DrawFn, name: str) -> str:
    kind = draw(st.integers(0, 9))
    if name == "tables" or kind == 0:
        entries = draw(st.lists(scalar(), max_size=4))
        out = "["
        for number, each in enumerate(entries):
            last = number == len(entries) - 1
            out += draw(gap()) + each + (draw(gap()) if draw(st.integers(0, 4)) == 0 else "")
            out += "," if not last or draw(st.booleans()) else ""
        return out + draw(gap()) + "]"
    if kind == 1:
        keys = draw(st.lists(st.sampled_from(["k", '"a b"', "k2", '"spark.x"']), unique=True, max_size=3))
        out = "{" + draw(gap())
        for number, key in enumerate(keys):
            out += f"{key}{draw(blank)}{draw(st.sampled_from(['=', ':']))}{draw(blank)}{draw(scalar())}"
            out += draw(st.sampled_from([",", "\n", ",\n", ", # c\n", " # c\n"])) if number < len(keys) - 1 else ""
        return out + draw(gap()) + "}"
    if kind == 2:
        return f'<<{draw(st.sampled_from(["", "-"]))}EOT\n  some # text\n {{{{ env("H") }}}}\nEOT'
    return draw(scalar())


@st.composite
def body(draw: st.DrawFn, depth: int) -> str:
    out = ""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
    todo: list[str | None] = [*names, *[None] * (draw(st.integers(0, 2)) if depth else 0)]
    for name in draw(st.permutations(todo)):
        for _ in range(draw(st.integers(0, 2))):
            out += (
                draw(st.sampled_from(["\n", "  \n"])) if draw(st.booleans()) else f"{draw(indent)}{draw(comment())}\n"
            )
        lead = draw(indent)
        if name is not None:
            held = draw(value(name))
            out += f"{lead}{name}{draw(blank)}={draw(blank)}{held}"
            if held.endswith("EOT"):
                out += "\n"
                continue
        elif draw(st.integers(0, 4)) == 0:
            out += f"{lead}{draw(head())}{{{draw(blank)}{draw(st.sampled_from(['', 'a = 1', 'a = [1, 2]']))}{draw(blank)}}}"
        else:
            out += f"{lead}{draw(head())}{{{draw(tail())}\n{draw(body(depth - 1))}{draw(indent)}}}"
        out += f"{draw(tail())}\n"
    if draw(st.integers(0, 3)) == 0:
        out += f"{draw(indent)}{draw(comment())}\n"
    return out


@st.composite
def head(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(BLOCKS))
    label = f'{draw(blank)} "{draw(st.sampled_from(["one", "two", "three"]))}"' if draw(st.booleans()) else ""
    return f"{name}{label}{draw(blank)} "


@st.composite
def tail(draw: st.DrawFn) -> str:
    return draw(blank) if draw(st.integers(0, 3)) else f" {draw(comment())}"


@st.composite
def files(draw: st.DrawFn) -> str:
    text = draw(body(2))
    if draw(st.booleans()):
        text = text.rstrip("\n") if not text.rstrip("\n").endswith("EOT") else text
    if draw(st.integers(0, 2)) == 0:
        text = text.replace("\n", "\r\n")
    return (MARK if draw(st.integers(0, 5)) == 0 else "") + text


new_scalar = st.one_of(
    st.sampled_from([Env("SECRET"), True, None, 5, -7, 2.5, 1e20]), st.sampled_from(TEXTS), st.text(max_size=6)
).filter(lambda each: not isinstance(each, str) or not any("\ud800" <= c <= "\udfff" or c == "\ue000" for c in each))
new_value = st.one_of(
    new_scalar,
    st.lists(new_scalar, max_size=3),
    st.dictionaries(st.sampled_from(["k", "a b", "k2", "in"]), new_scalar, max_size=3),
)


def blocks_of(root: Inner, at: Path = ()) -> list[Path]:
    inner = [
        path
        for number, each in enumerate(root.entries)
        if isinstance(each, Inner)
        for path in blocks_of(each, (*at, number))
    ]
    return [at, *inner]


def plain(block: Inner) -> list[Any]:
    return [
        (each.name, each.label, plain(each)) if isinstance(each, Inner) else (each.name, repr(each.value))
        for each in block.entries
    ]


@st.composite
def edits(draw: st.DrawFn, draft: Draft) -> tuple[str, Callable[[], None], list[Any]]:
    """A description, the edit, and what the whole must then mean."""
    within = draw(st.sampled_from(blocks_of(draft.document)))
    block = draft.block(within)
    lists = [
        (*within, number)
        for number, each in enumerate(block.entries)
        if isinstance(each, Setting) and isinstance(each.value, list)
    ]
    kinds = ["put", "add", "remove", "item", "take", "again"]
    kind = draw(st.sampled_from(kinds))
    if kind == "remove" and block.entries:
        number = draw(st.integers(0, len(block.entries) - 1))
        meant = _meant(draft, within, lambda held: held[:number] + held[number + 1 :])
        return f"remove {within} {number}", lambda: draft.remove((*within, number)), meant
    if kind == "item" and lists:
        path, each = draw(st.sampled_from(lists)), draw(new_scalar)
        held = draft.at(path)
        assert isinstance(held, Setting)
        meant = _meant(draft, within, _set(held.name, [*held.value, plain_of(each)]))
        return f"add {each!r} to {path}", lambda: draft.add_item(path, each), meant
    if kind == "take" and lists and draft.at(lists[0]).value:  # type: ignore[union-attr]
        path = lists[0]
        held = draft.at(path)
        assert isinstance(held, Setting)
        number = draw(st.integers(0, len(held.value) - 1))
        meant = _meant(draft, within, _set(held.name, held.value[:number] + held.value[number + 1 :]))
        return f"take {number} from {path}", lambda: draft.remove_item(path, number), meant
    if kind == "add":
        new = NewBlock(
            "output", draw(st.sampled_from([None, "new"])), {"type": "kafka", "x": NewBlock("x", None, {"y": 1})}
        )
        apart = draw(st.booleans())
        shown = ("output", new.label, [("type", repr("kafka")), ("x", None, [("y", "1")])])
        return (
            "add a block",
            lambda: draft.add_block(within, new, apart=apart),
            _meant(draft, within, lambda all: [*all, shown]),
        )
    names = [each.name for each in block.entries if isinstance(each, Setting)]
    name = draw(st.sampled_from(names or ["new"])) if kind == "again" else draw(st.sampled_from(["new", *NAMES]))
    given_value: Any = draw(new_value)
    if name in names:
        meant = _meant(draft, within, _set(name, plain_of(given_value), of=block))
    else:
        behind = max((n + 1 for n, it in enumerate(block.entries) if isinstance(it, Setting)), default=0)
        entry = (name, repr(plain_of(given_value)))
        meant = _meant(draft, within, lambda held: [*held[:behind], entry, *held[behind:]])
    return f"put {name} = {given_value!r} in {within}", lambda: draft.put(within, name, given_value), meant


def _set(name: str, value: Any, of: Inner | None = None) -> Callable[[list[Any]], list[Any]]:
    old = None if of is None else of.value_of(name)
    if isinstance(old, dict) and isinstance(value, dict):
        kept = [key for key in old if key in value]
        value = {key: value[key] for key in [*kept, *(key for key in value if key not in kept)]}
    return lambda held: [(name, repr(value)) if len(each) == 2 and each[0] == name else each for each in held]


def _meant(draft: Draft, within: Path, change: Callable[[list[Any]], list[Any]]) -> list[Any]:
    def at(entries: list[Any], path: Path) -> list[Any]:
        if not path:
            return change(entries)
        number, *rest = path
        name, label, inner = entries[number]
        return [*entries[:number], (name, label, at(inner, tuple(rest))), *entries[number + 1 :]]

    return at(plain(draft.document), within)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_an_edit_changes_what_was_asked_for_and_nothing_else(data: st.DataObject) -> None:
    raw = data.draw(files())
    draft = Draft(raw, "dstream.hcl")
    for _ in range(data.draw(st.integers(1, 3))):
        before = draft.raw
        what, edit, meant = data.draw(edits(draft))
        note(f"{what}\n{before}")
        edit()
        note(f"--- gives\n{draft.raw}")
        assert plain(document(draft.raw.removeprefix(MARK).replace("\r\n", "\n"), "x")) == meant
        assert draft.raw.startswith(MARK) == raw.startswith(MARK)
        assert Draft(draft.raw, "x").document.same(draft.document)
        if "\r\n" in before and not re.search(r"(?<!\r)\n", before):
            assert not re.search(r"(?<!\r)\n", draft.raw)
    assert taken_back(draft.raw, difference(raw, draft.raw)) == raw
