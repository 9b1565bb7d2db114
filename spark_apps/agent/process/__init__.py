"""The consumer's process: it registers, looks, acts, and leaves."""
