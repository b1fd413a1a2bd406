"""Standard output or standard error: every change a line, for a look, a pipe or a test."""
