"""Tests of the wing `explore`."""
