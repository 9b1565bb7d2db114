"""The threads of a topic, and the site's hooks in these threads."""
