"""Blocks inside of `ingester` that have a module each: their settings, validated. Nothing here opens anything."""
