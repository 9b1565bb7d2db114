"""The committed offsets of the groups: where they are, resets, and the way back."""
