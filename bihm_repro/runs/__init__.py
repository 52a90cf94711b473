"""The run folder: layout, checkpoint, what may change on resume, one reader."""
