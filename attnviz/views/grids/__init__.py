"""Labelled grids, curves and sections: what a renderer draws."""
