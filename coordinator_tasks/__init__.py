"""A central coordinator that decides which consumer reads which Kafka partition."""

__version__ = "0.3.0"
