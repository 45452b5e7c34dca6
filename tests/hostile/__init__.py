"""Calls that nobody would make on purpose, and what must never come of one."""
