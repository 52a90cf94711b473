"""Keeps pytest out of this folder: ``make torture`` runs it."""

collect_ignore_glob = ["*.py"]
