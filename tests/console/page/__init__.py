"""The page in a real browser, over the invented desk."""
