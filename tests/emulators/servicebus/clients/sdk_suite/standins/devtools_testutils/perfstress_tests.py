"""The one function of the performance framework that ordinary tests use."""

from __future__ import annotations

import secrets

get_random_bytes = secrets.token_bytes
