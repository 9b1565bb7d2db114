"""The topic's state machine: the next write, from what ZooKeeper stores and the consumers report."""
