"""What the clients of Azure's AMQP services share: addresses, deadlines, connections, refusals, octets. Knows no SDK by name."""
