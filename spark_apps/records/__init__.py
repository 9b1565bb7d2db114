"""Records: reading from Kafka, batches, and columns."""
