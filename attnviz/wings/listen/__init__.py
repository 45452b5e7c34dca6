"""Hears every attention that a PyTorch program computes, without a change to it."""
