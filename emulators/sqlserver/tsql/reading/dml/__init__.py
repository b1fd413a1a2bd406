"""Statements that read and change rows: finds their clauses, and leaves what a query means to those who lower it."""
