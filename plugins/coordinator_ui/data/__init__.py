"""The pages' data, read from ZooKeeper, the consumers and Airflow. Writes nothing."""
