"""The figures of the paper, from run folders alone, in one look; each with its numbers as CSV."""
