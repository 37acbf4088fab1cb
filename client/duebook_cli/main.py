"""The command's entry point."""

_EXTRA = ("boto3", "iso4217", "rich", "typer")


def main() -> None:
    """Run `duebook`; it exits with the codes of `duebook_cli.exits`."""
    try:
        from duebook_cli.app import app
    except ModuleNotFoundError as missing:
        if missing.name not in _EXTRA:
            raise
        raise SystemExit(f"duebook needs {missing.name}: pip install 'duebook-client[cli]'") from None
    app()
