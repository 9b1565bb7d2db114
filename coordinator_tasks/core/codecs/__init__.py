"""Stored and sent formats: bytes to model and back. What comes in is bounded, and refused with one clear error."""
