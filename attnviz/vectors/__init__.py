"""Vectors of tokens: drawn from a seed, or read from a file; and their positions."""
