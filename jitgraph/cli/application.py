"""The application: its commands, their examples, and how a command ends."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import typer

import jitgraph
from jitgraph.cli import file_commands, machine_commands, model_commands, screen
from jitgraph.cli.failures import FAILS, USAGE, CommandError
from jitgraph.own_code import OWN

_MODELS: Final = "Models"
_FILES: Final = "Files"
_MACHINE: Final = "This machine"

OWN.add(os.path.dirname(typer.__file__))  # an error is then at the line that calls the command line, if at any

Command = tuple[Callable[..., int], str, str, str]
COMMANDS: Final[tuple[Command, ...]] = (
    (model_commands.run, "run", _MODELS, "jitgraph run model.jg -i x=photo.png -o y.npy"),
    (model_commands.info, "info", _MODELS, "jitgraph info model.jg"),
    (model_commands.show, "show", _MODELS, "jitgraph show model.jg --kernels --target x86-64-v4"),
    (model_commands.bench, "bench", _MODELS, "jitgraph bench model.jg --size batch=64"),
    (file_commands.export, "export", _FILES, "jitgraph export model.jg --so build/"),
    (file_commands.convert, "convert", _FILES, "jitgraph convert net.pt -i x=float32[batch,3,224,224]"),
    (file_commands.diff, "diff", _FILES, "jitgraph diff before.jg after.jg --tolerance 1e-6"),
    (file_commands.verify, "verify", _FILES, "jitgraph verify model.jg"),
    (file_commands.loader, "loader", _FILES, "jitgraph loader deploy/"),
    (machine_commands.doctor, "doctor", _MACHINE, "jitgraph doctor"),
)
CACHE_COMMANDS: Final[tuple[Command, ...]] = (
    (machine_commands.cache_info, "info", "", "jitgraph cache info"),
    (machine_commands.cache_clear, "clear", "", "jitgraph cache clear"),
    (machine_commands.cache_verify, "verify", "", "jitgraph cache verify"),
)


def _example(text: str) -> str:
    """The last line of a command's help; square brackets would be markup."""
    return f"Example: [bold]{text.replace('[', chr(92) + '[')}[/bold]"


def _version(value: bool) -> None:
    if value:
        screen.raw(jitgraph.__version__)
        raise typer.Exit


def _root(
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show the whole traceback of an error; for any command.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version, and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Run, show, compare and convert saved models of jitgraph (.jg files)."""


def application() -> Any:
    """The typer application, whose commands return their exit code."""
    settings = {"help_option_names": ["-h", "--help"]}
    app: Any = typer.Typer(
        name="jitgraph",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings=settings,
        epilog=_example("jitgraph run model.jg --random"),
    )
    app.callback()(_root)
    cache: Any = typer.Typer(no_args_is_help=True, context_settings=settings, rich_markup_mode="rich")
    for owner, commands in ((app, COMMANDS), (cache, CACHE_COMMANDS)):
        for function, name, panel, example in commands:
            register = owner.command(
                name,
                epilog=_example(example),
                rich_help_panel=panel or None,
                no_args_is_help=owner is app and name != "doctor",
            )
            register(function)
    app.add_typer(
        cache, name="cache", help="Look after the compile cache.", rich_help_panel=_MACHINE,
        epilog=_example("jitgraph cache info"),
    )  # fmt: skip
    return app


def run(words: Sequence[str]) -> int:
    """Run the command line with these words; its exit code."""
    end = words.index("--") if "--" in words else len(words)
    wants_traceback = "--traceback" in words[:end]
    arguments = [word for at, word in enumerate(words) if at >= end or word != "--traceback"]
    command = " ".join(["jitgraph", *_command_of(arguments)])
    try:
        result = typer.main.get_command(application()).main(arguments, prog_name="jitgraph", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except BrokenPipeError:  # whoever reads has read enough
        with contextlib.suppress(BrokenPipeError):
            sys.stdout.close()
        return 0
    except SystemExit as end:  # typer itself ends a process whose reader is gone, and completion
        is_unread = isinstance(end.__context__, BrokenPipeError)
        return end.code if isinstance(end.code, int) and not is_unread else 0
    except Exception as error:
        if wants_traceback:
            traceback.print_exc()
            return _exit_code(error)
        return _tell(command, error)


def _command_of(arguments: Sequence[str]) -> list[str]:
    """The names of the command, for messages."""
    names = {name for _, name, _, _ in COMMANDS}
    first = next((word for word in arguments if not word.startswith("-")), "")
    if first != "cache":
        return [first] if first in names else []
    rest = arguments[arguments.index("cache") + 1 :]
    inner = next((word for word in rest if word in {name for _, name, _, _ in CACHE_COMMANDS}), "")
    return ["cache", inner] if inner else ["cache"]


def _exit_code(error: Exception) -> int:
    code = getattr(error, "exit_code", None)  # of typer's errors and of CommandError
    if isinstance(code, int):
        return code
    from jitgraph.errors import OptionError

    return USAGE if isinstance(error, OptionError) else FAILS


def _tell(command: str, error: Exception) -> int:
    """Print an error on one line; its exit code."""
    if hasattr(error, "format_message"):  # of typer, about the words
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
        else:
            text = error.format_message()
            screen.error(command, f"{text.rstrip('.')}\nsee {command} --help" if text else f"see {command} --help")
    else:
        screen.error(command, _text(error))
    return _exit_code(error)


def _text(error: Exception) -> str:
    """What an error says: its message, the user's line where it is not that of the command, and the hint."""
    if isinstance(error, CommandError):
        return str(error)
    from jitgraph.errors import JitgraphError, LocatedError
    from jitgraph.location import Location

    if isinstance(error, LocatedError):
        at = "" if error.location in (None, Location.of_user()) else f"\nat {error.location}"
        return f"{error.message}{at}\n{f'hint: {error.hint}' if error.hint else ''}"
    if isinstance(error, JitgraphError):
        return str(error)
    if isinstance(error, OSError):
        file = "" if error.filename is None else f"{error.filename}: "
        return f"{file}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return f"{type(error).__name__}: {error}\n--traceback shows where"
