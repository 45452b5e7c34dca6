"""Trained transformers: found, loaded, listened to, and made into Traces."""
