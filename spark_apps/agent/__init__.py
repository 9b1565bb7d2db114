"""The consumer's agent: which partitions it runs, what it commits, what it says of itself. It knows no Spark."""
