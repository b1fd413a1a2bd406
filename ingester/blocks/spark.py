"""The `spark` block, and what of Spark's own settings can be judged without Spark. Opens nothing; `ingester/spark` acts on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from common.config.settings import Location, Settings

RESULTS_PORT: Final = "spark.dstream.results.port"
"""DStream's own, next to spark.driver.port and spark.blockManager.port: where the driver listens for results of bundles that still run."""
_PORTS = (RESULTS_PORT, "spark.driver.port", "spark.blockManager.port")
_PORT_NUMBERS = range(1024, 65536)
"""Spark ends for others, but for 0: startServiceOnPort in its Utils."""
MEMORY: Final = ("spark.driver.memory", "spark.executor.memory")
SIZE: Final = re.compile(r"\s*([0-9]{1,15})(?:([kmgt])b?|(b?))\s*", re.IGNORECASE)
_MEGABYTES = {"b": 1 / 1024 / 1024, "k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1024 * 1024}
"""Of each unit. https://spark.apache.org/docs/latest/configuration.html (Application Properties)"""
_LEAST_MB = 450
"""Spark does not start with less: it reserves 300 MB, and asks for half as much again."""
_MOST_SLOTS = 1024
_MASTER = re.compile(
    r"local(\[(?P<slots>[1-9]\d*|\*)(,\s*[1-9]\d*)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://[^\s,/:]+:\d+(,[^\s,/:]+:\d+)*|k8s://(https?://)?[^\s/]\S*|yarn"
)


def _master(text: str) -> str:
    if (found := _MASTER.fullmatch(text)) is None:
        raise ValueError(
            "is not a Spark master: local[8] for this machine, spark://HOST:7077, k8s://https://HOST:PORT, or yarn"
        )
    if (slots := found["slots"]) not in (None, "*") and (len(slots) > 9 or int(slots) > _MOST_SLOTS):
        raise ValueError(f"has more than {_MOST_SLOTS} slots; local[8] is enough for most databases")
    return text


def _conf_value(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class SparkSettings(Settings):
    """The Spark job's own settings."""

    master: Annotated[str, AfterValidator(_master)] = Field(
        default="local[8]",
        description=(
            "Where the job runs: `local[n]` or a cluster's address. The default is 8 slots on any number of cores, because a slot mostly waits "
            "for the database or the bus."
        ),
    )
    slots: int | None = Field(
        default=None,
        ge=2,
        le=_MOST_SLOTS,
        description=(
            "Tasks at a time, 2 to 1024. None, the default: as many as the present executors can run, checked every few seconds, and at "
            "least 2; with `local[n]` that is n, with dynamic allocation twice as many. Set it below that to leave cores to others."
        ),
    )
    conf: Mapping[str, Annotated[str, BeforeValidator(_conf_value)]] = Field(
        default_factory=dict,
        repr=False,
        description=(
            'Further Spark settings, `{ "spark.executor.memory" = "1g" }`, which override DStream\'s own. Their values are never shown. '
            "Empty by default."
        ),
    )

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        conf = given.get("conf")
        if isinstance(conf, Mapping):
            found = ((key, _wrong(key, _conf_value(value))) for key, value in conf.items())
            yield from ((("conf", key), text) for key, text in found if text is not None)


def _wrong(key: str, value: Any) -> str | None:
    """What Spark would pass over, or end a start for in words of its own. Shows no value."""
    if not key.startswith("spark."):
        return "is no setting of Spark's: their names begin with spark., as in spark.executor.memory"
    if not isinstance(value, str):
        return None
    if key in _PORTS and not (re.fullmatch(r"[0-9]{1,5}", value) and (int(value) == 0 or int(value) in _PORT_NUMBERS)):
        return "is no port: write one from 1024 to 65535, or 0 for any that is free"
    size = SIZE.fullmatch(value) if key in MEMORY else None
    if key in MEMORY and (size is None or int(size[1]) * _MEGABYTES[(size[2] or size[3]).lower()] < _LEAST_MB):
        return f"is no size of {_LEAST_MB} MB or more: write a whole number with its unit, such as 512m or 2g"
    return None
