"""The index that `provision = "create"` makes for a table, and what is wrong with one that exists. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from router.outputs.elasticsearch.documents import DELETED, OWN
from router.outputs.elasticsearch.settings import ElasticsearchSettings

MARK_ONE: Final = "mark exactly one index of the alias as its write index (is_write_index)"
_FIELDS = 4096
"""Fields of an index: a table may have 1,024 columns, and a text has two."""


def index_of(place: str) -> str:
    """The first index behind an alias. A person who makes another one, with other types, lets the alias name that."""
    return f"{place}-000001"


def body_of(settings: ElasticsearchSettings, place: str) -> Mapping[str, Any]:
    """What is sent to create it. An index template of the user adds shards, replicas and types of fields."""
    alias: dict[str, Any] = {"is_write_index": True}
    if settings.mode == "rows" and settings.deletes == "mark":
        alias["filter"] = {"bool": {"must_not": {"term": {DELETED: True}}}}
    index: dict[str, Any] = {"mapping": {"total_fields": {"limit": _FIELDS}}}
    if settings.mode == "rows" and settings.deletes == "remove":
        index["gc_deletes"] = f"{int(settings.deletes_kept.total_seconds())}s"
    return {"aliases": {place: alias}, "settings": {"index": index}, "mappings": _mappings(settings)}


def _mappings(settings: ElasticsearchSettings) -> Mapping[str, Any]:
    """Texts are never taken for dates or numbers, because the next one may be neither; and a number that its field cannot hold is stored without
    being searchable, because the first row's number decided the type."""
    lenient = [
        {f"dstream_{kind}": {"match_mapping_type": kind, "mapping": {"type": kind, "ignore_malformed": True}}}
        for kind in ("long", "double")
    ]
    found: dict[str, Any] = {"date_detection": False, "numeric_detection": False, "dynamic_templates": lenient}
    if settings.mode == "rows":
        own = {"position": {"type": "keyword"}, "deleted": {"type": "boolean"}}
        found["properties"] = {OWN: {"properties": own}}
    return found


def write_indexes(place: str, found: Mapping[str, Any]) -> Sequence[str]:
    """The indexes behind `place` that take writes: one, unless the alias is wrong. `found`: what `GET /PLACE` answered."""
    return [name for name, each in found.items() if name == place or _writes(each, place, len(found))]


def faults(settings: ElasticsearchSettings, place: str, found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with what stands behind `place`, each with what to do. `found`: what `GET /PLACE` answered."""
    writes = write_indexes(place, found)
    if len(writes) != 1:
        yield (f"{len(writes)} of its indexes take writes", MARK_ONE)
        return
    if settings.mode == "rows" and len(found) > 1:
        yield (
            f"it is an alias of {len(found)} indexes, and documents cannot be read by their id through it",
            "let the alias name one index only",
        )
    mappings = found[writes[0]].get("mappings") or {}
    if (mappings.get("_source") or {}).get("enabled") in (False, "false"):
        yield (
            "its mapping has _source disabled",
            "make another index with _source: positions of changes are read from it",
        )
    if mappings.get("_routing", {}).get("required"):
        yield "its mapping requires routing", "make another index without it: documents are found by their id"
    default = _at(found[writes[0]], "settings", "index", "default_pipeline")
    if default not in (None, "_none"):
        yield (
            f"it has the pipeline {default}",
            "remove default_pipeline unless it leaves the ids and _dstream as they are",
        )


def weaknesses(settings: ElasticsearchSettings, place: str, found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What works and should be known."""
    if place in found:
        yield (
            "it is an index and not an alias of one",
            "if it is deleted while changes arrive, the server may make it again without its mapping; an alias prevents that",
        )
    for name, each in found.items():
        if str(_at(each, "settings", "index", "translog", "durability")).lower() == "async":
            yield (
                f"{name} has index.translog.durability async: changes that were accepted are lost if its nodes fail within seconds",
                f"set index.translog.durability of {name} to request",
            )
    if settings.mode == "append":
        return
    for name, each in found.items():
        if settings.deletes == "mark" and _at(each, "aliases", place, "filter") is None:
            yield (
                f"searches of {place} find the marks of deleted rows",
                f"give the alias the filter that dstream plan prints, or leave out {DELETED} in searches",
            )
        kept = _at(each, "settings", "index", "gc_deletes")
        if settings.deletes == "remove" and kept is None:
            yield (
                f"{name} remembers removed documents for 60 s only",
                f"set index.gc_deletes of {name} to {int(settings.deletes_kept.total_seconds())}s",
            )


def has_field(mapping: Mapping[str, Any], path: str) -> bool:
    """Whether a mapping has a field or an object of this path. A name in it may have dots itself."""
    properties = mapping.get("properties") or {}
    return path in properties or any(
        path.startswith(f"{name}.") and has_field(inner, path[len(name) + 1 :]) for name, inner in properties.items()
    )


def _writes(index: Mapping[str, Any], place: str, count: int) -> bool:
    alias = (index.get("aliases") or {}).get(place)
    if alias is None:
        return False
    return bool(alias.get("is_write_index", count == 1))


def _at(found: Any, *keys: str) -> Any:
    for key in keys:
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    return found
