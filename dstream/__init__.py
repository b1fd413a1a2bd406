"""The command line: the only code that knows both stages."""
