"""The names of the pages. Every Airflow process imports this."""

NAMES = {
    "topics": "Topics",
    "live": "Partitions live",
    "rebalances": "Rebalances",
    "actions": "Actions",
    "audit": "Ownership audit",
    "letters": "Dead letters",
    "run": "Moved partitions",
}
"""Template → the name of its page: in Airflow's menu, in links, as its heading and its title."""
