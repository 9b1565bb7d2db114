"""Results of measurements: lag, pauses, predictions and budgets. Pure."""
