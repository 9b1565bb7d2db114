"""Spark's source in the JVM: its Java code, and the jars that are built from it."""
