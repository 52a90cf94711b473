"""The commands of ``bihm``, one a module: ``HELP``, ``add_arguments(parser)``, ``run(args)``."""
