"""Labelled grids, curves and sections: everything that a renderer has to draw."""
