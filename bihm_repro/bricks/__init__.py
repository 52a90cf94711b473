"""Bricks: parameters and the maps made from them, in the manner of Blocks."""
