"""What is found in Traces: checks, measures, comparisons, sweeps."""
