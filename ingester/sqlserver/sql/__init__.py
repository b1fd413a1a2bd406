"""The T-SQL, one module a subject. Values travel as parameters."""
