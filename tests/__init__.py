"""Tests of attnviz: each is named by a sentence that is true of it."""

LONGEST = 120.0  # seconds that a test waits for another process, on however slow a machine
