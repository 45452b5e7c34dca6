"""The screen of `attnviz explore`: what is on it, its keys, and how it is drawn."""
