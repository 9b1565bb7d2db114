"""The consumer's HTTP interface."""
