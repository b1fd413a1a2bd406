"""Topics of Apache Kafka, or of another server that speaks its protocol, as an output."""
