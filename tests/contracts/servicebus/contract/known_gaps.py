"""What the Service Bus emulator knowingly does not imitate, each with its reason: the only place where that is written.

A key is the name of a test or name[case] for one case of it. A gap that has closed fails the run (XPASS), and so does a name
that no test has. On a real namespace the list means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

GAPS: Mapping[str, str] = {}
