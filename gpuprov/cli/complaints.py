"""What ends a command before or beside its hosts, in words: wrong input, our own mistakes, an interrupt."""

from __future__ import annotations

import sys
import time
import traceback

import click

from gpuprov.cli.words import Manner, wants_traceback
from gpuprov.errors import ErrorRecord, ExitCode, GpuprovError, InputError, Problem


def complain(error: BaseException, manner: Manner) -> int:
    """Say what went wrong and return the exit code.

    People read it on stderr; with ``--json`` it is one ``error`` event for each problem on stdout.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case SystemExit():
            return error.code if isinstance(error.code, int) else ExitCode.FAILED
        case click.Abort() | KeyboardInterrupt():
            _tell(manner, Problem("interrupted"), code="interrupted", exit_code=ExitCode.INTERRUPTED)
            return ExitCode.INTERRUPTED
        case click.ClickException():
            if manner.json:
                _event(Problem(error.format_message()), code="input", exit_code=ExitCode.USAGE)
            else:
                error.show(sys.stderr)
            return ExitCode.USAGE
        case InputError():
            for problem in error.problems:
                _tell(manner, problem, code=error.code, exit_code=error.exit_code)
            if error.trace and wants_traceback(manner.verbosity):
                click.echo(error.trace, err=True, nl=False)
            return error.exit_code
        case GpuprovError():
            return _known(error, manner)
        case _:
            return _bug(error, manner)


def _tell(manner: Manner, problem: Problem, *, code: str, exit_code: int) -> None:
    if manner.json:
        _event(problem, code=code, exit_code=exit_code)
        return
    from gpuprov.report.visible import visible_lines

    for line in visible_lines(str(problem)):
        click.echo(line, err=True)


def _event(problem: Problem, *, code: str, exit_code: int, output: str = "") -> None:
    from gpuprov.report.jsonlines import JsonLines, stamped

    place = problem.position
    JsonLines(sys.stdout).write(
        stamped(
            "error",
            time.time(),
            code=code,
            message=problem.message,
            file=place.file if place else "",
            line=place.line if place else 0,
            column=place.column if place else 0,
            output=output,
            hint=problem.hint,
            exit_code=exit_code,
        )
    )


def _known(error: GpuprovError, manner: Manner) -> int:
    record = ErrorRecord.of(error)
    if manner.json:
        message = f"{record.where}: {record.message}" if record.where else record.message
        _event(Problem(message, hint=record.hint), code=record.code, exit_code=record.exit_code, output=record.output)
    else:
        from gpuprov.report.layout import console_for, show, width_of
        from gpuprov.report.recap import error_lines

        console = console_for(sys.stderr)
        show(console, error_lines(record, width_of(console, sys.stderr)))
    return record.exit_code


def _bug(error: BaseException, manner: Manner) -> int:
    record = ErrorRecord.of(error)
    if wants_traceback(manner.verbosity):
        traceback.print_exception(error, file=sys.stderr)
    problem = Problem(record.message, hint=record.hint)
    _tell(manner, problem, code=record.code, exit_code=ExitCode.FAILED)
    return ExitCode.FAILED
