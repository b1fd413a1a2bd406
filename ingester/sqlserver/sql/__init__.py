"""The T-SQL, one module for each subject. Values are parameters."""
