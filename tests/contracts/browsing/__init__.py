"""Promises of common/bus/browsing.py: looking at messages, and taking dead letters."""
