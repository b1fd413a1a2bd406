"""Of paused tables."""
