"""The events about transactions: which there are, and how many changes each has in which tables."""
