"""bayes_cmab."""
