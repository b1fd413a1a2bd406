"""An edited configuration, taken over by a running router."""
