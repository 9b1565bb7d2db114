"""What belongs to Spark: the session, the data source, the queries, the executors."""
