"""Entities asked for at the start, on the command line or in a configuration file."""
