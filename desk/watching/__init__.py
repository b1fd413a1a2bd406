"""What the console has seen lately, of the stores and of the processes. Changes nothing."""
