"""Assignors for whole groups of topics, as Kafka's own are."""
