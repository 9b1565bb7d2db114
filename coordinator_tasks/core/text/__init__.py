"""Strict reading and compact writing of text. Pure."""
