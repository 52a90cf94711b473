"""Models: each builds its symbolic graphs from bricks; ``exact`` enumerates tiny ones in numpy."""
