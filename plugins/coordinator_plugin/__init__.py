"""The coordinator's side in Airflow: hook, operators, waits, the watcher of ZooKeeper, and the launch of consumers.

These modules decide nothing. Every operator calls a function of `coordinator_tasks.service` and shows the result.
"""
