"""A View as one interactive HTML page that needs no other file and no network."""
