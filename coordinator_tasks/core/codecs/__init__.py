"""Stored and sent formats: bytes to model and back. Input is bounded, and refused with a clear error."""
