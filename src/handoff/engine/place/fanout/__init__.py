"""What scripts and people of handoff-fanout know: queue files, markers, stop files, tab addresses."""
