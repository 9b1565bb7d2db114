"""The demonstration: a join, a drain and a crash on real servers, and an independent check of everything that happened."""
