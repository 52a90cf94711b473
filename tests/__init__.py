"""The tests; a package, so that ``python -m tests.torture`` finds this one."""
