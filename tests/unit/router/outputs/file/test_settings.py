from __future__ import annotations

from typing import Any

import pytest

from common.names import Origin, TableName
from router.outputs.file.plan import planned
from router.outputs.file.settings import LONGEST_NAME, FileSettings
from router.outputs.port import Stream

ORIGIN = Origin("sql01", "Shop")
KEY = "c2VjcmV0LWtleQ=="
ACCOUNT = f"DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={KEY};EndpointSuffix=core.windows.net"


def settings(**given: Any) -> FileSettings:
    return FileSettings.model_validate({"type": "file", **({"root": "/files"} if "root" not in given else {}), **given})


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"root": None}, "needs root, or connection_string or account_url"),
        ({"connection_string": ACCOUNT}, "both a root and a storage account"),
        ({"compression": "zstd"}, "must be one of none, gzip"),
        ({"path": "/{table}"}, "names of folders"),
        ({"path": "{table}/"}, "names of folders"),
        ({"path": "../{table}"}, "must not have a folder . or .."),
        ({"path": "_open/{table}"}, "must not have a folder"),
        ({"path": "a:b/{table}"}, "must not have <"),
        ({"path": "all"}, "needs a place of its own"),
        ({"envelope": "cloudevents", "cloudevents_mode": "binary"}, 'needs line = "message"'),
        ({"envelope": "cloudevents", "cloudevents_mode": "binary", "format": "parquet"}, "cannot be Parquet"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        settings(**given)


@pytest.mark.parametrize(
    ("given", "ending", "compressed"),
    [
        ({}, "jsonl", "none"),
        ({"compression": "gzip"}, "jsonl.gz", "gzip"),
        ({"format": "parquet"}, "parquet", "zstd"),
        ({"format": "parquet", "compression": "none"}, "parquet", "none"),
    ],
)
def test_the_form_of_files(given: dict[str, Any], ending: str, compressed: str) -> None:
    assert (settings(**given).ending, settings(**given).compressed) == (ending, compressed)


def test_a_folder_for_each_table() -> None:
    assert settings().place(ORIGIN, "t", TableName("sales", "Order Details")) == "sql01.Shop/sales.Order_x0020_Details"
    assert settings().place(ORIGIN, "sql01.shop.x.events", None) == "sql01_x002e_shop_x002e_x_x002e_events"
    assert (
        settings().place(ORIGIN, "t", TableName("dbo", "../..")) == "sql01.Shop/dbo._x002e__x002e__x002f__x002e__x002e_"
    )


def test_long_names_are_shortened_each_by_itself_and_stay_different() -> None:
    places = {settings().place(ORIGIN, "t", TableName("dbo", "ö" * 127 + last)) for last in "äü"}

    assert len(places) == 2
    assert all(len(folder) <= LONGEST_NAME for place in places for folder in place.split("/"))


def test_the_key_is_never_shown() -> None:
    made = settings(root=None, connection_string=ACCOUNT)
    plan = planned(made, [Stream("t", None, "folder")], "create")

    assert made.where == "acc.blob.core.windows.net/changes"
    assert KEY not in repr(made) + str(plan)
    assert "--account-name acc" in plan.script


def test_settings_without_effect_are_named() -> None:
    given = [
        settings(root=None, connection_string=ACCOUNT, fsync=False),
        settings(container_name="changes"),
        settings(format="parquet", line="message"),
    ]

    assert [[name for name, _ in each.without_effect] for each in given] == [["fsync"], ["container_name"], ["line"]]
