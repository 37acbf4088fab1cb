"""The `duebook` command: what people who run Duebook do by hand, over the typed client."""
