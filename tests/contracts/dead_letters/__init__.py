"""`desk/dead_letters` on an emulated namespace, through the unmodified SDK."""
