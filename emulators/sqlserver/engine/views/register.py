"""All catalog and management views by name, and the view that lists them. Their rows are made in the modules next to this one."""

from __future__ import annotations

from collections.abc import Iterator

from emulators.sqlserver.engine.views import (
    constraints,
    indexes,
    information_schema,
    locks,
    objects,
    principals,
    server,
    sizes,
)
from emulators.sqlserver.engine.views.viewing import STARTED, Row, Viewpoint, Views, shape

_SYSTEM_SCHEMAS = {"information_schema": 3, "sys": 4}


def _system_views(view: Viewpoint) -> Iterator[Row]:
    """The views that are known here; their object ids are negative, as the real ones are."""
    extension = view.session.engine.extension
    names = [*VIEWS, *(extension.views() if extension is not None else ())]
    for number, name in enumerate(sorted(names), 1):
        schema, _, short = name.partition(".")
        if schema in _SYSTEM_SCHEMAS:
            shown = short.upper() if schema != "sys" else short
            yield shown, -number, None, _SYSTEM_SCHEMAS[schema], 0, "V ", "VIEW", STARTED, STARTED, 1, 0, 0


VIEWS: Views = {
    **objects.VIEWS,
    **indexes.VIEWS,
    **constraints.VIEWS,
    **information_schema.VIEWS,
    **principals.VIEWS,
    **locks.VIEWS,
    **server.VIEWS,
    **sizes.VIEWS,
    "sys.system_views": (
        shape(
            "name:name object_id:int principal_id:int schema_id:int parent_object_id:int type:code type_desc:text "
            "create_date:datetime modify_date:datetime is_ms_shipped:bit is_published:bit is_schema_published:bit"
        ),
        _system_views,
    ),
}
