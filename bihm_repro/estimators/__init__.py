"""Estimates by importance sampling, in constant memory, each with its standard error."""
