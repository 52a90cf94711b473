"""Samples of p and p*, inpainting, and the pictures of them; numpy only."""
