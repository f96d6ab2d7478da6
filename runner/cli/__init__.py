"""The command line: a module a command, loaded when it is called, so that `--help` loads none of them."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from ...schema.errors import EXIT_BUG, EXIT_INTERRUPTED, BenchcardError

#: command -> (module, one line for the overview). Each module holds a click command named `command`.
COMMANDS: dict[str, tuple[str, str]] = {
    "new": ("new", "Write a commented card that validates."),
    "validate": ("validate", "Check cards; show every error with its place."),
    "explain": ("explain", "Explain a card key and the failure mode it guards."),
    "plan": ("plan", "Show cells, order, duration and what can be detected; run nothing."),
    "pin": ("pin", "Write the installed analysis revision into a card."),
    "run": ("run", "Execute a card, analyse, render; or resume a run."),
    "report": ("report", "Analyse and render a run again."),
    "verdict": ("verdict", "Print a run's verdict."),
    "identity": ("identity", "Print what each arm was, or what it takes to build the same systems."),
    "reproduce": ("reproduce", "Run a card again with a fresh seed and compare the two days."),
    "audit": ("audit", "Recompute a run from its raw events; name what cannot be trusted."),
    "crosscheck": ("crosscheck", "Put `vllm bench serve` beside the client, on the server of a run."),
    "calibrate": ("calibrate", "Measure the client on this machine; write its certificate."),
    "probe": ("probe", "Print what this host tells of a server on it, for another host's run."),
    "engine": ("engine", "Run the embedded engine on its own."),
}


class _LazyGroup(click.Group):
    """Knows its commands by name and one line; imports a command's module only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, its module imported now; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f".{COMMANDS[cmd_name][0]}", __name__)
        command: click.Command = module.command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command that the arguments name; a usage error with the nearest name where there is none."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(COMMANDS)}"
            ctx.fail(f"no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the help, from `COMMANDS` alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"benchcard {version('benchcard')}")
        ctx.exit()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def group() -> None:
    """LLM-serving experiments that are declared before they are run.

    A card states a hypothesis, the threshold that would falsify it, the workload, the system and the objectives.
    Exit codes: 0 done, 2 bad input, 3 a system under test did not start, answer or match, 4 a bug in benchcard,
    130 interrupted (resumable).
    """


def main() -> None:
    """Entry point: runs a command and turns every error into a message and an exit code, never a traceback."""
    try:
        code = group.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BenchcardError as error:
        click.echo(f"error: {_told(error)}" if str(error) else f"error: {type(error).__name__}", err=True)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe left: nothing more to say, and nowhere to say it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
    except Exception as error:
        _bug(error)
        sys.exit(EXIT_BUG)
    sys.exit(code if isinstance(code, int) else 0)


def _told(error: Exception | str) -> str:
    """An error's text without secrets: the second net, under those where it was made."""
    from ..secrets import redactor

    return redactor().text(str(error))


def _bug(error: Exception) -> None:
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="benchcard-bug-", suffix=".txt", delete=False) as file:
        file.write(_told("".join(traceback.format_exception(error))))
    click.echo(
        f"error: a bug in benchcard: {type(error).__name__}: {_told(error)}\n"
        f"The details are in {file.name}; please report them.",
        err=True,
    )
