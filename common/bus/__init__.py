"""Message buses, whichever they are: ports, settings, and what both stages do to spare a bus."""
