"""Tests of the wing `examples`."""
