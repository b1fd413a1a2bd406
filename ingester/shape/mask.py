"""A mask as the configuration writes it, and as a value. What it makes of values is in `masking.py`. Never shows a salt."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from common.config.values import Unset

MaskKind = Literal["hash", "redact", "truncate", "null"]

ALGORITHMS = {
    "SHA-256": "sha256",
    "SHA-384": "sha384",
    "SHA-512": "sha512",
    "SHA3-256": "sha3_256",
    "SHA3-384": "sha3_384",
    "SHA3-512": "sha3_512",
    "SHA-224": "sha224",
    "SHA-1": "sha1",
    "MD5": "md5",
}
"""Java's names of message digests, which Debezium uses, with those of Python's hashlib."""

FORMS = '"hash:SHA-256:SALT", "redact", "truncate:4" or "null"'


@dataclass(frozen=True, slots=True)
class Mask:
    """`algorithm`, one of ALGORITHMS, and `salt`: of a hash. `length`: of `truncate`, in characters.

    `unset`: the environment variable that the mask needs and that is not set; it counts as a hash, and cannot be used.
    """

    kind: MaskKind
    algorithm: str = ""
    salt: str = field(default="", repr=False)
    length: int = 0
    unset: Unset | None = None


def mask_of(text: str) -> Mask:
    """The mask that `text` says. Raises ValueError, whose text shows nothing of `text` behind its second colon."""
    kind, colon, rest = text.partition(":")
    if kind == "hash":
        return _hash(rest)
    if kind == "truncate" and re.fullmatch(r"[0-9]{1,9}", rest) and int(rest):
        return Mask("truncate", length=int(rest))
    if kind == "truncate":
        raise ValueError('needs how many characters are left, 1 or more: write "truncate:4"')
    if not colon and kind == "redact":
        return Mask("redact")
    if not colon and kind == "null":
        return Mask("null")
    raise ValueError(f"is not a mask: write {FORMS}")


def _hash(rest: str) -> Mask:
    algorithm, colon, salt = rest.partition(":")
    if algorithm not in ALGORITHMS:
        near = get_close_matches(algorithm.upper(), ALGORITHMS, n=1, cutoff=0.7)
        meant = f' (did you mean "{near[0]}"?)' if near else ""
        raise ValueError(
            f"has an unknown algorithm{meant}: write hash:ALGORITHM:SALT with one of {', '.join(ALGORITHMS)}"
        )
    if not colon or not salt.strip():
        raise ValueError(
            f"has no salt: anyone finds the values behind hashes without a salt by hashing guesses; write hash:{algorithm}:SALT, "
            'best with {{ env "SALT" }}'
        )
    return Mask("hash", algorithm, salt)


def _validated(value: Any) -> Mask:
    if isinstance(value, Mask):
        return value
    if isinstance(value, Unset):
        return Mask("hash", unset=value)
    if not isinstance(value, str):
        raise ValueError(f"must be text in double quotes: {FORMS}")
    return mask_of(value)


MaskText = Annotated[Mask, BeforeValidator(_validated)]
"""A mask in a model of settings."""
