"""The output `postgres`: changes applied as rows to tables of PostgreSQL."""
