"""A central coordinator that decides which consumer reads which Kafka partition."""
