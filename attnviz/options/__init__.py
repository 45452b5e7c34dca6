"""Options: a row for each, which the command line, the library and messages share."""
