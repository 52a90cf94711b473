"""The only door to the symbolic engine.

``choice`` says which engine and device are asked for; ``blas``, ``compiler`` and ``threads``
prepare the machine; ``symbolic`` imports the engine, once, and gives its names to the rest.
"""
