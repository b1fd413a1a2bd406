"""T-SQL's text to statements."""
