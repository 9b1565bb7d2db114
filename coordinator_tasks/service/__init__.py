"""The coordinator's work: one function per Airflow task, over the ports of the core."""
