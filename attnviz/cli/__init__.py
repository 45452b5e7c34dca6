"""The command line: options in, one call, one output; a file for each command."""
