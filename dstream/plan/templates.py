"""The templates of this folder, and how values are written in each language. Reads files of the package, and nothing else."""

from __future__ import annotations

import json
from datetime import timedelta
from importlib.resources import files
from typing import Any

import jinja2

from common.bus.shapes import (
    LOCK,
    MOST_DELIVERIES,
    PREMIUM_MEGABYTES,
    STANDARD_MEGABYTES,
    queue_options,
    topic_options,
)
from dstream.plan.needs import INGESTER, ROUTER, SCALER, Needs


def of_azure(name: str, needs: Needs, **values: Any) -> str:
    """`rendered` with what entities and identities are like in every language, and these values."""
    return rendered(
        name,
        needs=needs,
        identities=[("ingester", INGESTER), ("router", ROUTER), ("scaler", SCALER)],
        queue_options=queue_options,
        topic_options=topic_options,
        lock=LOCK,
        deliveries=MOST_DELIVERIES,
        premium_megabytes=PREMIUM_MEGABYTES,
        standard_megabytes=STANDARD_MEGABYTES,
        **values,
    )


def rendered(name: str, **values: Any) -> str:
    """A file of templates/ with these values. A value that is missing is an error."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(bicep=bicep, hcl=hcl, yaml=yaml, camel=camel, arm=arm)
    text = files("dstream.plan").joinpath("templates", name).read_text(encoding="utf-8")
    return environment.from_string(text).render(**values)


def bicep(value: Any) -> str:
    """A literal. https://learn.microsoft.com/azure/azure-resource-manager/bicep/data-types#strings"""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\${") + "'"
    return "'" + _iso(value) + "'" if isinstance(value, timedelta) else _plain(value)


def hcl(value: Any) -> str:
    """A literal of Terraform. https://developer.hashicorp.com/terraform/language/expressions/strings"""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")
    return f'"{_iso(value)}"' if isinstance(value, timedelta) else _plain(value)


def yaml(value: Any) -> str:
    """A text in double quotes: JSON's are YAML's as well."""
    return json.dumps(str(value), ensure_ascii=False)


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def arm(name: str) -> str:
    """An entity's name in Resource Manager, which writes `~` for the slash that it keeps to itself."""
    return name.replace("/", "~")


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    raise TypeError(f"no literal for {type(value).__name__}")


def _iso(value: timedelta) -> str:
    """ISO 8601: PT10M, P1DT30S."""
    days, rest = value.days, value.seconds
    hours, minutes, seconds = rest // 3600, rest % 3600 // 60, rest % 60
    time = "".join(f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M"), (seconds, "S")) if number)
    return f"P{f'{days}D' if days else ''}{f'T{time}' if time else ''}" if days or time else "PT0S"
