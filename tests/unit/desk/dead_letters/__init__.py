"""Dead letters: the parts that decide, and the journal."""
