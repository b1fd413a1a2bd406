"""The console, as people and programs use it."""
