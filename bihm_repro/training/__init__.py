"""Training: step rules, the compiled update, the main loop and the extensions it calls."""
