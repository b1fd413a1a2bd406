"""Statements that are neither queries, nor rows, nor DDL of tables: procedures, principals, options, databases, errors."""
