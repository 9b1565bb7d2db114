"""The present state of a cluster, for persons and for metrics. Writes only samples of the lag."""
