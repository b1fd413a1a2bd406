"""Queries and expressions to plans."""
