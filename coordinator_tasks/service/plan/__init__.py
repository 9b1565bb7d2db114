"""The transitions, what a plan may not touch, and what a plan would do."""
