"""What can be wrong with a rule: its description, when it is created, or its evaluation for one message."""

from __future__ import annotations


class InvalidRule(Exception):
    """A rule that cannot be created (HTTP 400); the text names the position in the expression and what was expected there."""


class FilterError(Exception):
    """A rule that could not be evaluated for a message: the subscription's copy is a dead letter (if it wants those)."""
