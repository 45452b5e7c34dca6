"""The command line: options in, one call, one output. One file for each command."""
