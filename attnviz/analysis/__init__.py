"""Analysis of traces: checks, measures, comparisons, sweeps."""
