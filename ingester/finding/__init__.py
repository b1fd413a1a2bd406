"""The tables that patterns find: which they are, and looking for them again and again."""
