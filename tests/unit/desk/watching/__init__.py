"""Of what the console has seen."""
