"""The configuration edited while both stages run: comments and order kept, checked as a whole, undone with one call."""
