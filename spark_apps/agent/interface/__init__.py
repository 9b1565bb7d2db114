"""The HTTP interface by which a consumer answers."""
