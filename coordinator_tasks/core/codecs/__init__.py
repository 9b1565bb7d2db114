"""Stored and sent formats: bytes to model and back.

Readers bound their input, and refuse wrong input with a clear error.
"""
