"""A consumer's reads from ZooKeeper, and its watches."""
