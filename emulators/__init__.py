"""Servers that speak the real protocols to unmodified drivers. They know nothing of DStream."""
