"""Tests of the wing `corpora`."""
