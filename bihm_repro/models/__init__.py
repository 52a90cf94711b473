"""Models: the interface, the registry of kinds, and a file for each method."""
