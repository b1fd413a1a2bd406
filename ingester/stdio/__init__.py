"""`dstream provider`: settings from standard input, changes to standard output, slices in threads of this process."""
