"""Spark's source in the JVM: its Java sources, and the jars that are built from them."""
