"""Consumers as processes that outlive their launcher's caller."""
