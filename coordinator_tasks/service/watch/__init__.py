"""What a cluster does now, for persons and for metrics. Writes nothing but the moments of lag."""
