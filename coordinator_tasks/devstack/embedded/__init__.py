"""Real ZooKeeper, Kafka and Airflow as local processes, for the first run and for tests.

The coordinator itself imports nothing of this package: only the demo, the command line and the tests use it. Every
process belongs to the starting Python process and cannot outlive it, unless it was detached on purpose (see
:mod:`coordinator_tasks.devstack.embedded.detached`).
"""
