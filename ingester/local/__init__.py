"""Locks of a single process."""
