"""Edits of `dstream.hcl` that leave everything else of the file as it is."""
