"""Consumers as processes that outlive whoever launches them."""
