"""Fused Ops: what an update does besides its matrix products, in one pass over memory each."""
