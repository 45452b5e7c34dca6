"""Slides, made with python-pptx: words that can be edited, and pictures between them."""
