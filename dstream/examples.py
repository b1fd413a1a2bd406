"""The example of each block in docs/configuration.md; a test reads them as a configuration."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[tuple[str, str], str]] = {}
"""HCL by a block's path and, where it has several, its type."""
