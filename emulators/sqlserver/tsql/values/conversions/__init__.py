"""A module for each family of target types: how every other type becomes one of them. Which pairs are allowed is decided in convert.py."""
