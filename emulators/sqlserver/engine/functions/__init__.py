"""What functions of the session and @@ variables return."""
