"""Real ZooKeeper, Kafka and Airflow as local processes, for the first run and for tests.

The coordinator imports nothing of this package; only the demo, the command line and the tests do. Every process belongs
to the Python process that started it, and cannot outlive it unless detached on purpose (see
:mod:`coordinator_tasks.devstack.embedded.detached`).
"""
