"""The arithmetic of attention and of transformer blocks, and a table of its variants."""
