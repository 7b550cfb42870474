"""Modules that load when they are first needed.

No fork finds one half imported (``forks.py``), and no finaliser that the cyclic collector runs meanwhile, in the same
thread, finds one without its names: one of this package by any import, one of another inside of ``importing()``. What
a module consists of lives as long as the process, so the collector takes it as old at once.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

from jitgraph.runtime import forks, shared

_PROVIDED: Final[dict[str, tuple[str, str]]] = {}  # what lower layers ask for: the module that has it, and a path


@contextmanager
def importing() -> Iterator[None]:
    """A block that imports modules."""
    collects = gc.isenabled()
    with forks.whole(), shared.PAUSED.inside():
        count = len(sys.modules)
        try:
            yield
        finally:
            if collects and len(sys.modules) > count:
                _age()


def _age() -> None:
    """Make all objects of the collector's oldest generation, without looking at any of them.

    Collections of young objects would walk through all that was imported, NumPy included: a tenth of the time to a
    first result. The next full collection finds garbage among them as ever. While something is traced or compiled, most
    objects are short-lived, so nothing happens then; nor where the program or Python has frozen some, which would thaw.
    """
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()


def module(name: str) -> ModuleType:
    """The module of this name, imported where it is not there yet."""
    loaded = sys.modules.get(name)
    if loaded is not None and not getattr(getattr(loaded, "__spec__", None), "_initializing", False):
        return loaded
    with importing():
        return importlib.import_module(name)


def function(module_name: str, name: str) -> Callable[..., Any]:
    """The function of this name of a module, which its first call imports."""

    resolved: Callable[..., Any] | None = None

    def call(*args: Any, **keywords: Any) -> Any:
        nonlocal resolved
        if resolved is None:
            resolved = getattr(module(module_name), name)
        return resolved(*args, **keywords)

    return call


class _Late:
    """Stands for a module under its name in another one, until something of it is asked for."""

    def __init__(self, place: str, module_name: str) -> None:
        self._place, self._name = place, module_name

    def __getattr__(self, name: str) -> Any:
        loaded = module(self._name)
        names = vars(sys.modules[self._place])
        for own in [own for own, value in names.items() if value is self]:
            names[own] = loaded
        return getattr(loaded, name)


def late(place: str, module_name: str) -> Any:
    """A module for the variable of the module ``place`` that names it, imported when it is first used there.

    The variable is the module itself from then on: for what each call uses, where ``module`` would take too long.
    """
    return sys.modules.get(module_name) or _Late(place, module_name)


def provide(what: str, module_name: str, path: str = "") -> None:
    """Say, from a higher layer, in which module there is what lower layers ask for, and by which path of attributes.

    They know it by ``what`` alone; the module is imported when it is first asked for.
    """
    _PROVIDED[what] = module_name, path


def provider(what: str) -> tuple[str, str]:
    """Module and path of what a higher layer provides."""
    return _PROVIDED[what]


def provided(what: str) -> Any:
    """What a higher layer provides."""
    module_name, path = _PROVIDED[what]
    value: Any = module(module_name)
    for name in path.split(".") if path else ():
        value = getattr(value, name)
    return value


class _WholeModules:
    """A finder of this package's modules, which are executed while the collector waits, however they are imported.

    A finaliser that the collector ran in the midst of one, in the same thread, would find it without its names.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec that the finders behind this one give."""
        if not name.startswith(_PACKAGE) or self not in sys.meta_path:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((each for each in specs if each is not None), None)
        loader = None if spec is None else spec.loader
        if loader is not None and not hasattr(loader, "_is_whole"):  # one loader of an archive has many modules
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                if shared.PAUSED.has_this_thread():
                    execute(module)
                    return
                with shared.PAUSED.inside():
                    execute(module)

            loader.exec_module = exec_module  # type: ignore[method-assign]
            loader._is_whole = True  # type: ignore[attr-defined]
        return spec


_PACKAGE: Final = f"{__name__.partition('.')[0]}."
sys.meta_path.insert(0, _WholeModules())


class _AfterImport:
    """A finder of modules that finds none, but calls a function of this package behind the import of another's."""

    def __init__(self, name: str, module_name: str, function: str) -> None:
        self._name, self._call = name, (module_name, function)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec that the other finders give, whose loader tells this package."""
        if name != self._name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path)
        spec = next((each for each in specs if each is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                function(*self._call)(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def after_import(name: str, module: str, call: str) -> None:
    """Call the function ``call`` of the module ``module`` with the module ``name``: now, or once it is imported."""
    if name in sys.modules:
        function(module, call)(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, module, call))
