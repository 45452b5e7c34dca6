"""The screen of `attnviz explore`: its content, its keys, and how it is drawn."""
