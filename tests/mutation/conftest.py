"""Keeps pytest out of this folder: ``make mutation`` runs it."""

collect_ignore_glob = ["*.py"]
