"""Trained transformers: located, loaded, run with captured attention, and traced."""
