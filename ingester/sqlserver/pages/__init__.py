"""What a page of a change table is made of, before its rows become changes."""
