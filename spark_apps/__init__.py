"""The consumer side: a Spark data source that reads the Kafka partitions assigned to this application, and its agent."""
