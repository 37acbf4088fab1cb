"""Many at once: files of rows, a journal of what was done with each, and calls at a bounded rate."""
