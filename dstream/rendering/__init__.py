"""Values to what a person or a program reads: text tables and JSON. Reads nothing and prints nothing."""
