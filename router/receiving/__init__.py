"""Slots: each receives one session at a time, and settles what was published."""
