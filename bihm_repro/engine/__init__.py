"""Access to the symbolic engine, theano or PyTensor: no other package imports one.

``choice`` reads which engine and device are requested; ``blas``, ``compiler`` and ``threads``
prepare the machine; ``backend`` configures and imports the engine, and ``symbolic`` has its names.
"""
