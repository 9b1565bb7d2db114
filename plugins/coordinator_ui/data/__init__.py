"""What the pages show, read from ZooKeeper, the consumers and Airflow. Writes nothing."""
