"""Counting the changes of a transaction: for their places, and for the events about it."""
