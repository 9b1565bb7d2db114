"""Records: how they are read from Kafka, in which batches, and as which columns."""
