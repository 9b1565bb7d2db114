"""Consumers as processes that outlive the launcher's caller."""
