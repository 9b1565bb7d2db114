"""Scenario files and their runner."""
