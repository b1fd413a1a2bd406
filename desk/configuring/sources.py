"""Sources: the entries of `ingester.tables`, and the overrides of tables. Decides what an order means for the file; opens nothing.

Refuses what would leave an override behind that nobody reads. Says when a table is not sent although an order names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from common.errors import ConfigurationError, PermanentError
from common.names import TableName
from common.table_selection import Entry, Exclusion, TablePattern, TableSelection, entry
from desk.configuring.allowed import Allowed
from desk.configuring.applying import apply_settings, new_block, refused
from desk.configuring.hcl.document import Inner
from desk.configuring.hcl.draft import Draft, NewBlock, Path
from desk.configuring.secrets import asked_for, settings_shown
from desk.configuring.uncovered import Covering, uncovered_in
from desk.desk import Conflict, NotFound
from desk.documents.configuring import Source, SourceOrder
from ingester.settings import TableOverride

Kind = Literal["table", "pattern", "exclusion"]
_NAME = "table_name"


def sources(draft: Draft, matched: Sequence[TableName]) -> list[Source]:
    """`matched`: the tables that patterns match now, as far as they are known."""
    ingester = _ingester(draft)
    found = list[Source]()
    overrides = {_key(name): path for name, path in _overrides(draft, ingester)}
    block, selection = draft.block(ingester), _selection(draft, ingester)
    line = next((each.line for each in block.entries if each.name == "tables"), None)
    for text in _texts(draft, ingester):
        meant = _entry(text)
        override = overrides.pop(_key(meant), None) if isinstance(meant, TableName) else None
        found.append(
            Source(
                name=text,
                kind=_kind(meant),
                matches=_matches(meant, matched, selection),
                settings=_shown(draft, override),
                line=line if override is None else draft.block(override).line,
            )
        )
    for path in overrides.values():
        name = str(draft.block(path).value_of(_NAME))
        found.append(
            Source(
                name=name,
                kind="table",
                matches=_matches(_entry(name), (), selection),
                settings=_shown(draft, path),
                line=draft.block(path).line,
            )
        )
    return found


def _matches(meant: Entry, matched: Sequence[TableName], selection: TableSelection) -> list[str]:
    if isinstance(meant, TableName):
        return [] if selection.excluding(meant) else [meant.key]
    if isinstance(meant, Exclusion):
        return []
    return [each.key for each in matched if meant.matches(each) and selection.excluding(each) is None]


def put_source(draft: Draft, order: SourceOrder, *, new: bool, allowed: Allowed) -> list[str]:
    """Change `draft`, and return what a person should know."""
    ingester = _ingester(draft)
    name = order.name.strip()
    meant = _entry(name)
    listed = _listed(draft, ingester, meant)
    override = _override(draft, ingester, meant)
    if new and (listed is not None or override is not None):
        raise Conflict(f"adding {name}: it is there already", hint="change it, or take another name")
    if not new and listed is None and override is None and not _found_by_pattern(draft, ingester, meant):
        raise NotFound(f"changing {name}: no such entry in ingester.tables, and no pattern finds it")
    present = None if override is None else draft.block(override)
    settings, wrong = asked_for(TableOverride, order.settings, f"the override of {name}", present)
    if _NAME in settings:
        wrong.append(f"{_NAME}: the name is that of the source")
    if not isinstance(meant, TableName) and settings:
        wrong.append(f"{name}: an override names one table, so a pattern or an exclusion has no settings")
    wrong += allowed.problems(TableOverride, present, settings, f"the override of {name}")
    refused(wrong)
    warnings = _warnings_of(draft, ingester, meant)
    with draft.together():
        if new:
            _list_entry(draft, ingester, name)
        if settings and override is not None:
            with draft.alone(override) as (part, path):
                apply_settings(part, path, TableOverride, settings)
        elif any(each is not None for each in settings.values()):
            _add_override(draft, ingester, new_block("overrides", None, TableOverride, {_NAME: name, **settings}))
    return warnings


def remove_source(draft: Draft, name: str) -> list[str]:
    """As `put_source`. An override stays while a pattern still finds its table."""
    ingester = _ingester(draft)
    meant = _entry(name)
    listed = _listed(draft, ingester, meant)
    override = _override(draft, ingester, meant)
    if listed is None and override is None:
        raise NotFound(f"removing {name}: no such entry in ingester.tables")
    with draft.together():
        return _removed(draft, ingester, meant, listed, override)


def _removed(draft: Draft, ingester: Path, meant: Entry, listed: int | None, override: Path | None) -> list[str]:
    if listed is not None:
        tables = draft.path(ingester, "tables")
        assert tables is not None
        draft.remove_item(tables, listed)
    warnings = list[str]()
    if listed is not None and override is not None and _selection(draft, ingester).may_have(_table(meant)):
        pattern = _selection(draft, ingester).finding(_table(meant))
        return [f'{pattern} still finds {meant}, which keeps its override; add "!{meant}" to stop it']
    if override is not None:
        draft.remove(override)
    if isinstance(meant, TablePattern):
        warnings += _overrides_left(draft, ingester)
    return warnings


def exposed(old: Draft, new: Draft) -> Iterator[str]:
    """For a person, what is sent from now on that was hidden."""
    before, after = old.path((), "ingester"), new.path((), "ingester")
    if before is None or after is None:
        return
    selection = _selection(new, after)
    yield from uncovered_in(_covering(old, before), _covering(new, after), selection)
    kept = {each.text.lower() for each in selection.excluded}
    for pattern in _selection(old, before).excluded:
        if pattern.text.lower() not in kept:
            yield f"the tables that !{pattern} took away are sent from now on, if an entry finds them"


def _covering(draft: Draft, ingester: Path) -> Covering:
    shape = draft.path(ingester, "shape")
    found = None if shape is None else draft.at(shape)
    overrides = {name: draft.block(path) for name, path in _overrides(draft, ingester)}
    return Covering(found if isinstance(found, Inner) else None, overrides)


def _overrides_left(draft: Draft, ingester: Path) -> Iterator[str]:
    """Take away the overrides of tables that nothing finds any longer: the file could not be read with them."""
    selection = _selection(draft, ingester)
    for name, path in reversed(list(_overrides(draft, ingester))):
        if not selection.may_have(name) and selection.excluding(name) is None:
            draft.remove(path)
            yield f"the override of {name} is removed as well, because nothing else finds that table"


def _warnings_of(draft: Draft, ingester: Path, meant: Entry) -> list[str]:
    found = list[str]()
    if isinstance(meant, TableName) and (taken := _selection(draft, ingester).excluding(meant)) is not None:
        found.append(f'"!{taken}" takes {meant} away: it is not sent')
    return found


def _ingester(draft: Draft) -> Path:
    found = draft.path((), "ingester")
    if found is None:
        raise PermanentError(
            "reading the sources: the file has no ingester block", hint="name the ingester's file with --config"
        )
    return found


def _texts(draft: Draft, ingester: Path) -> list[str]:
    value = draft.block(ingester).value_of("tables")
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _entry(text: str) -> Entry:
    try:
        return entry(text)
    except ValueError as error:
        raise ConfigurationError([f"{text.strip() or 'the name'}: {error}"]) from None


def _kind(meant: Entry) -> Kind:
    if isinstance(meant, Exclusion):
        return "exclusion"
    return "pattern" if isinstance(meant, TablePattern) else "table"


def _same(one: Entry, other: Entry) -> bool:
    if isinstance(one, TableName) and isinstance(other, TableName):
        return _key(one) == _key(other)
    if isinstance(one, TablePattern) and isinstance(other, TablePattern):
        return (one.schema, one.table) == (other.schema, other.table)
    return isinstance(one, Exclusion) and isinstance(other, Exclusion) and _same(one.pattern, other.pattern)


def _key(table: TableName | str) -> str:
    return (table.key if isinstance(table, TableName) else TableName.parse(table).key).lower()


def _table(meant: Entry) -> TableName:
    assert isinstance(meant, TableName)
    return meant


def _listed(draft: Draft, ingester: Path, meant: Entry) -> int | None:
    return next((number for number, text in enumerate(_texts(draft, ingester)) if _same(_entry(text), meant)), None)


def _selection(draft: Draft, ingester: Path) -> TableSelection:
    return TableSelection.of(_entry(text) for text in _texts(draft, ingester))


def _found_by_pattern(draft: Draft, ingester: Path, meant: Entry) -> bool:
    return isinstance(meant, TableName) and _selection(draft, ingester).finding(meant) is not None


def _overrides(draft: Draft, ingester: Path) -> Iterator[tuple[TableName, Path]]:
    holder = draft.path(ingester, "tables_overrides")
    if holder is None or not isinstance(draft.at(holder), Inner):
        return
    for path in list(draft.paths(holder, "overrides")):
        block = draft.at(path)
        name = block.value_of(_NAME) if isinstance(block, Inner) else None
        if isinstance(name, str) and isinstance(meant := _entry(name), TableName):
            yield meant, path


def _override(draft: Draft, ingester: Path, meant: Entry) -> Path | None:
    if not isinstance(meant, TableName):
        return None
    return next((path for name, path in _overrides(draft, ingester) if _key(name) == _key(meant)), None)


def _list_entry(draft: Draft, ingester: Path, name: str) -> None:
    tables = draft.path(ingester, "tables")
    if tables is None:
        draft.put(ingester, "tables", [name])
    else:
        draft.add_item(tables, name)


def _add_override(draft: Draft, ingester: Path, block: NewBlock) -> None:
    holder = draft.path(ingester, "tables_overrides")
    if holder is None:
        draft.add_block(ingester, NewBlock("tables_overrides", None, {"overrides": block}), apart=True)
    else:
        draft.add_block(holder, block)


def _shown(draft: Draft, override: Path | None) -> dict[str, object]:
    return {} if override is None else settings_shown(TableOverride, draft.block(override), besides=(_NAME,))
