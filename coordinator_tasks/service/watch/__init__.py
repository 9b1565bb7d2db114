"""The present state of a cluster, for persons and for metrics. Only samples of the lag are written."""
