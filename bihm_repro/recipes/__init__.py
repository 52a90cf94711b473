"""What to train, typed and checked."""
