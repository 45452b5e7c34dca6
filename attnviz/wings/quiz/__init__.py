"""Questions about attention with a clear answer, found in the numbers of Traces."""
