"""The command's entry point."""


def main() -> None:
    """Run `duebook`; exits with the codes of `duebook_cli.exits`."""
    try:
        import typer  # noqa: F401
    except ModuleNotFoundError:
        raise SystemExit("duebook: the command line is an extra: pip install 'duebook-client[cli]'") from None
