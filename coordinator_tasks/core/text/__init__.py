"""Text that is read strictly, and text that is written in few characters. Pure."""
