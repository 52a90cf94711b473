"""Mutation testing: small changes to the package, each of which some test has to notice.

``python -m tests.mutation`` (or ``make mutation``) draws mutants with a fixed seed, runs for each
the tests that execute the changed line, and lists those that no test noticed. The score is in
CONTRIBUTING.md. Other tools run all mutants in the package as it is; here compiling takes too long
for that, and tests start processes that have to see the mutant too.
"""
