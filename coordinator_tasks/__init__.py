"""A central coordinator that assigns Kafka partitions to consumers."""

__version__ = "0.3.0"
