"""The half that decides: which tables are due, who owns them, what a pass reads."""
