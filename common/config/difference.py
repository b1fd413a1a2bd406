"""Which settings differ between two readings of a configuration. Names alone: a value may be a secret. Pure."""

from __future__ import annotations

from collections.abc import Collection

from common.config.settings import Settings


def differing(old: Settings, new: Settings, *, block: str, besides: Collection[str] = ()) -> tuple[str, ...]:
    """The dotted names of the settings that differ, such as `ingester.queue.name`, except for the block's own fields in `besides`.

    A block that only one of them has is named itself.
    """
    found: list[str] = []
    for name in type(old).model_fields:
        if name in besides:
            continue
        one, other = getattr(old, name), getattr(new, name)
        if one == other:
            continue
        dotted = f"{block}.{name}"
        both = isinstance(one, Settings) and type(one) is type(other)
        found += differing(one, other, block=dotted) if both else (dotted,)
    return tuple(found)
