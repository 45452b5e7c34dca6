"""Tables of Findings: sentences that conclude, each with its condition."""
