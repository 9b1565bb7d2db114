"""What the coordinator does: one function per Airflow task, over the ports of the core."""
