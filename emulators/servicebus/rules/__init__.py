"""Rules of subscriptions: which messages a subscription takes, and what it changes in its copy."""

from __future__ import annotations

from .errors import InvalidRule
from .ruleset import Copies, RuleSet

__all__ = ["Copies", "InvalidRule", "RuleSet"]
