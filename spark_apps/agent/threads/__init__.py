"""The threads of a topic, and the hooks of a site that run in them."""
