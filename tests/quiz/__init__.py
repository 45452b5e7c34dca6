"""Tests of the wing `quiz`."""
