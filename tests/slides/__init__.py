"""Tests of the wing `slides`."""
