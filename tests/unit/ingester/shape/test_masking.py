"""Masks: hashes as Debezium's `column.mask.hash.v2` makes them, with what its documentation and tests publish; and the other forms."""

from __future__ import annotations

import json

import orjson
import pytest

from common.config.values import Unset
from common.errors import ConfigurationError
from ingester.shape.mask import ALGORITHMS, Mask, MaskKind, mask_of
from ingester.shape.masking import Masking, characters, masking
from ingester.source import CapturedColumn


def column(sql_type: str = "nvarchar", length: int | None = -1) -> CapturedColumn:
    return CapturedColumn("Email", sql_type, 2, length=length)


def masked(text: str, value: object, sql_type: str = "nvarchar", length: int | None = -1) -> object:
    return masking(mask_of(text), column(sql_type, length))(value)


@pytest.mark.parametrize(
    ("algorithm", "salt", "value", "digest"),
    [
        ("SHA-256", "salt", "hello", "cd31b3b98ece60cb739c0bf770b2de892ae0ad133f645513c3d83f08757a843a"),
        ("SHA-256", "salt", "world", "e84ac3142870113ddc6710c06f76421befc8e8ca6de64e98d2993ed8d41f4085"),
        ("MD5", "salt", "hello", "06decc8b095724f80103712c235586be"),
        ("SHA-256", "salt123", "12345678901234567890", "b65875d34a3dedf070f3a012970bf3b5da424560d7be3d2c23b986b525d2d7f3"),
    ],
)  # fmt: skip
def test_a_hash_is_what_debezium_publishes_for_version_2(algorithm: str, salt: str, value: str, digest: str) -> None:
    """https://github.com/debezium/debezium: MaskStringsTest and ColumnMappersTest."""
    assert masked(f"hash:{algorithm}:{salt}", value) == digest


@pytest.mark.parametrize(
    ("sql_type", "length", "left"),
    [
        ("varchar", 20, 20),
        ("char", 5, 5),
        ("nvarchar", 40, 20),
        ("nchar", 10, 5),
        ("nvarchar", -1, 64),
        ("varchar", 8000, 64),
        ("varchar", None, 64),
        ("text", 16, 64),
        ("int", 4, 64),
    ],
)
def test_a_hash_is_cut_to_the_characters_that_the_column_has(sql_type: str, length: int | None, left: int) -> None:
    assert (
        masked("hash:SHA-256:salt", "hello", sql_type, length)
        == ("cd31b3b98ece60cb739c0bf770b2de892ae0ad133f645513c3d83f08757a843a"[:left])
    )
    assert characters(column(sql_type, length)) == (left if left < 64 else 8000 if length == 8000 else None)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_every_algorithm_that_is_offered_works(algorithm: str) -> None:
    assert len(str(masked(f"hash:{algorithm}:salt", "x"))) >= 32


def test_of_other_values_the_text_is_hashed_that_would_be_sent() -> None:
    def same(value: object, text: str) -> bool:
        return masked("hash:SHA-256:s", value, "int") == masked("hash:SHA-256:s", text)

    assert same(42, "42")
    assert same(True, "true")
    assert same(1.5, "1.5")
    assert same(orjson.Fragment(b"12.50"), "12.50")
    assert same(orjson.Fragment(json.dumps("a\ud800")), "a?")
    assert masked("hash:SHA-256:s", "grün") != masked("hash:SHA-256:s", "grun")


def test_the_other_forms() -> None:
    assert masked("redact", "a@b.example") == "***"
    assert masked("null", "a@b.example") is None
    assert masked("truncate:4", "a@b.example") == "a@b."
    assert masked("truncate:40", "a@b.example") == "a@b.example"
    assert masked("truncate:2", "\U0001f600\U0001f601x") == "\U0001f600\U0001f601"


def test_half_a_pair_that_is_left_of_a_text_stays_what_it_is() -> None:
    cut: Masking = masking(mask_of("truncate:2"), column())
    assert orjson.dumps(cut(orjson.Fragment(json.dumps("a\ud800b")))) == b'"a\\ud800"'
    assert cut(orjson.Fragment(json.dumps("ab\ud800"))) == "ab"


def test_a_salt_that_is_not_set_is_an_error_that_names_the_variable_and_the_line() -> None:
    mask = Mask("hash", unset=Unset("SALT", "dstream.hcl", 7))
    with pytest.raises(ConfigurationError, match=r"dstream\.hcl:7: environment variable SALT is not set"):
        masking(mask, column())


@pytest.mark.parametrize(
    ("text", "kind"), [("hash:MD5:a:b", "hash"), ("redact", "redact"), ("truncate:007", "truncate"), ("null", "null")]
)
def test_a_mask_is_read(text: str, kind: MaskKind) -> None:
    mask = mask_of(text)
    assert mask.kind == kind
    assert mask.salt == ("a:b" if kind == "hash" else "")
    assert "a:b" not in repr(mask)
