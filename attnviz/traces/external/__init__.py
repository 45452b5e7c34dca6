"""Weights that were computed elsewhere, in whatever form they are handed over."""
