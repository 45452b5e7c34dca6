"""Attention weights that were computed outside attnviz, in any form."""
