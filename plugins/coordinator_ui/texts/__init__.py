"""The sentences of the pages. Pure."""
