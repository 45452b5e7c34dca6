"""Tests of the wing `listen`."""
