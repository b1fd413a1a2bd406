"""What a person runs to correct what a check finds in Service Bus."""
