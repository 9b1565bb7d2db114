"""Formats that are stored or sent: from bytes to the model and back.

Readers limit the size of their input, and refuse wrong input with a clear error.
"""
