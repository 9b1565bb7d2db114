"""A central coordinator: assigns Kafka's partitions to consumers, in place of Kafka's own group rebalance."""

__version__ = "0.3.0"
