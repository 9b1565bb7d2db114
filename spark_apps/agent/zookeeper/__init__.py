"""What a consumer reads from ZooKeeper, and how it is woken."""
