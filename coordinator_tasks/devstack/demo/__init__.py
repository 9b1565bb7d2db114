"""The demonstration: a join, a drain and a crash on real servers, with an independent check of all that happened."""
