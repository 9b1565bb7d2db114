"""The transitions, a person's overrides, and previews of plans."""
