"""Real ZooKeeper, Kafka and Airflow as local processes, for the first run and for tests.

Nothing here is imported by the coordinator itself: only the demo, the command line and the tests use it.
Every process belongs to the Python process that started it and cannot outlive it, unless it was detached on
purpose (see :mod:`coordinator_tasks.embedded.detached`).
"""
