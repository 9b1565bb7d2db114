"""The neighbours in memory, with the semantics of the real servers: the contract tests run on both."""
