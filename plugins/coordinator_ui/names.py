"""The names of the pages. Every process of Airflow imports this module."""

NAMES = {
    "topics": "Topics",
    "live": "Partitions live",
    "rebalances": "Rebalances",
    "actions": "Actions",
    "audit": "Ownership audit",
    "letters": "Dead letters",
    "run": "Moved partitions",
}
"""Template → name of the page: in Airflow's menu, in links, and as heading and title of the page."""
