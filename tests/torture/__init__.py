"""An attack on the readers, on resumption, on downloads and on the pages: ``make torture``.

Each group is a module with a ``GROUP``; :mod:`tests.torture.harness` runs its cases. A case is
determined by the seed, the group and its number, except for the moments of real kills.
"""
