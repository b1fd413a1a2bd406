"""What tests share: pipelines to break, peers that fail on order, and what watches them."""
