"""Cases of the contract that cannot be with a type of output are left out, as its world says."""

from __future__ import annotations

import pytest

from tests.outputs.contract.cases import OutputContract, heard

__all__ = ["heard"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    out = [item for item in items if _impossible(item)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


def _impossible(item: pytest.Item) -> bool:
    """Raises UsageError for a name that no case has."""
    cls = item.cls if isinstance(item, pytest.Function) else None
    if cls is None or not issubclass(cls, OutputContract) or not isinstance(item, pytest.Function):
        return False
    unknown = [name for name in cls.world_type.impossible if not hasattr(OutputContract, name)]
    if unknown:
        raise pytest.UsageError(f"{cls.world_type.__name__}.impossible: no such case: {', '.join(unknown)}")
    return item.originalname in cls.world_type.impossible
