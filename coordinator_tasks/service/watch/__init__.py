"""The present state of a cluster, for persons and for metrics. Writes only the moments of lag."""
