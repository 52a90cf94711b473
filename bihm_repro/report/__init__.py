"""The report stage: tables, figures and the gallery, from run folders alone, without an engine."""
