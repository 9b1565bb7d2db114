"""Spark's part of a consumer: the session, the data source, the queries, the executors."""
