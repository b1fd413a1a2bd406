"""T-SQL's built-in functions, by subject."""
