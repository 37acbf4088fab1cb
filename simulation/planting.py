"""Runs the product with a mutant planted: the changed source is compiled when it is imported, no file is touched."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from types import CodeType, ModuleType

from simulation.mutants import Mutant

PLANTED = "DUEBOOK_MUTANT"
"""Names the mutant to a process that is to run it."""


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self._source, self.path, "exec", dont_inherit=True)
        return code


class _Finder(MetaPathFinder):
    def __init__(self, loaders: dict[str, _Loader]) -> None:
        self._loaders = loaders

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        loader = self._loaders.get(fullname)
        return spec_from_loader(fullname, loader) if loader else None


def sources(mutant: Mutant) -> dict[str, tuple[str, str]]:
    """Module → its path and its changed source; edits of one file come one after the other."""
    found: dict[str, tuple[str, str]] = {}
    for edit in mutant.edits:
        source = found[edit.module][1] if edit.module in found else edit.path.read_text(encoding="utf-8")
        if source.count(edit.old) != 1:
            raise ValueError(f"{mutant.name}: {edit.file} has {source.count(edit.old)} times, not once: {edit.old!r}")
        found[edit.module] = (str(edit.path), source.replace(edit.old, edit.new))
    return found


def plant(mutant: Mutant) -> None:
    """From now on this process imports the mutant. Raises `RuntimeError` when it has imported the product already."""
    changed = sources(mutant)
    if known := sorted(changed.keys() & sys.modules.keys()):
        raise RuntimeError(f"{', '.join(known)} was imported before the mutant was planted")
    loaders = {module: _Loader(module, path, source) for module, (path, source) in changed.items()}
    sys.meta_path.insert(0, _Finder(loaders))
