"""The topic's state machine decides the next write, from ZooKeeper's state and the consumers' reports."""
