"""Tests of the wing `films`."""
