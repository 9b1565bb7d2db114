"""What is computed from measurements: lag, pauses, predictions and budgets. Pure."""
