"""The neighbours in memory, with the semantics of the real ones: the contract tests run on both."""
