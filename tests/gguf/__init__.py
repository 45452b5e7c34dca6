"""Tests of the wing `gguf`."""
