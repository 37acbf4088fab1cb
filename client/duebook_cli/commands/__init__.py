"""One module a subject; each adds its commands to the whole by `add_to`."""
