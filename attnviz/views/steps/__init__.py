"""The walk of a Trace, step by step, with its arithmetic."""
