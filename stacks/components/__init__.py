"""The constructs that the stacks wire: keyword-only arguments in, their resources as attributes out."""
