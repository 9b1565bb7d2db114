"""The committed offsets of the groups: display, resets, and their undo."""
