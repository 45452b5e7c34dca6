"""Models: weights that mean something, learned or written by hand, and the words they know."""
