"""One page to look around in: a View as HTML that needs nothing else, and no network."""
