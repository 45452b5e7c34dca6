"""Heads, seen through two sides: which tokens read, which are read, and facts about the weights."""
