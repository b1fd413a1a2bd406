"""Logs, metrics and health, the same in both stages."""
