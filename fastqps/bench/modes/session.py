"""One run of a mode from its flags to its files, however it ends."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastqps.bench.flags import Common, read_common
from fastqps.bench.measure.context import Context, Progress
from fastqps.bench.measure.generator import ended_by_signals
from fastqps.bench.measure.pinning import Pinning, pinning
from fastqps.bench.measure.target import Access, Target
from fastqps.bench.measure.workload import Payloads, vocabulary_of
from fastqps.bench.modes import mode
from fastqps.bench.report.terminal import RunProgress, print_result
from fastqps.bench.results.environment import OTHERS, Others, commit, environment
from fastqps.bench.results.result import BenchError, Result
from fastqps.bench.verdict import end_early
from fastqps.errors import CallError, ConfigError, FastqpsError
from fastqps.host.machine import now_utc
from fastqps.terminal import say


def run_mode(
    options: argparse.Namespace, settings: dict[str, Any], config_file: str, command: str, access: Access
) -> int:
    """Runs the mode that ``options`` name; the exit code. ``settings``: of the server, beside those in the flags;
    ``access``: to one at an address.

    What was measured before an error or Ctrl-C is written all the same.
    """
    common = read_common(options)
    target = Target(
        {**settings, **common.settings},
        address=options.address,
        admin=options.admin,
        config_file=config_file,
        access=access,
    )
    if check := getattr(mode(options.mode), "check", None):
        check(options, common)
    pins = pinning(options.pin, options.load_threads, own_server=target.own, local=target.local)
    others = Others()
    with _folder(options) as folder, ended_by_signals():
        result = _new_result(options, common, target, pins, command)
        failure = _measure(options, common, target, pins, result, folder)
        result.environment[OTHERS] = round(others.share(), 3)
        _write(result, folder)
    if failure is not None:
        say(f"fastqps: {failure}")
        return failure.exit_code
    return result.exit_code


def _measure(
    options: argparse.Namespace, common: Common, target: Target, pins: Pinning, result: Result, folder: Path
) -> FastqpsError | None:
    """Fills in the result. What ended it early, if there was something measured by then."""
    with tempfile.TemporaryDirectory(prefix="fastqps-bench-") as scratch, target, RunProgress(options.mode) as progress:
        try:
            payloads = _prepare(common, target, pins, Path(scratch), result, progress)
        except KeyboardInterrupt:
            end_early(result, [], "INTERRUPTED", "interrupted")
            return None
        context = Context(
            options, target, payloads, common.load, common.slo, pins, options.load_threads, folder, progress, result
        )

        return run_to_the_end(context)


def run_to_the_end(context: Context) -> FastqpsError | None:
    """Runs the mode. If Ctrl-C or an error ends it early, the result has what was measured. Returns that error; raises
    it if nothing was measured."""
    try:
        mode(context.result.mode).run(context)
    except KeyboardInterrupt:
        end_early(context.result, context.measured(), "INTERRUPTED", "interrupted")
    except FastqpsError as error:
        if not (points := context.measured()):
            raise
        end_early(context.result, points, "FAILED", f"ended early: {error}")
        return error
    return None


def _new_result(options: argparse.Namespace, common: Common, target: Target, pins: Pinning, command: str) -> Result:
    return Result(
        mode=options.mode,
        command=command,
        started=now_utc(),
        environment=environment(),
        commit=commit(),
        seeds={"load": common.load.seed, "texts": common.workload.seed},
        target=target.describe() | pins.as_json(),
        workload=common.workload.describe(),
        slo=common.slo.as_json() if common.slo else None,
        notes=[pins.note] if pins.note else [],
    )


def _prepare(
    common: Common, target: Target, pins: Pinning, scratch: Path, result: Result, progress: Progress
) -> Payloads:
    """Starts a server, reads its model, writes the payloads and sends one of them as a trial."""
    work = common.workload
    if target.own:
        progress.say("starting the server")
    server = target.use({}, pins.server)
    model = target.model(server, work.model)
    if work.call.name == "generate" and model.task != "generate":
        raise ConfigError(f"--call generate: {model.name} does not generate, it is a model to {model.task}")
    result.target |= {"address": server.address, "model": model.name, "version": model.version}
    result.target |= target.device(server)
    try:
        payloads = work.write(scratch / "payloads", _words(common, model.name))
    except OSError as error:
        raise BenchError(f"cannot write the payloads to {scratch}: {error.strerror}") from None
    try:
        target.try_one(server, payloads)
    except CallError as error:
        raise BenchError(f"the server refuses what is to be sent: {error}") from None
    return payloads


def _words(common: Common, served: str) -> list[str]:
    """Words of the model's own vocabulary, if its files are here."""
    from fastqps.models.names import resolve  # it imports what reads checkpoints

    given = common.settings.get("model") or served  # NAME, DIR or NAME=DIR; several in a list or with commas
    first = given[0] if isinstance(given, list) else str(given).split(",")[0]
    try:
        return vocabulary_of(resolve(first.partition("=")[2] or first)[1])
    except FastqpsError:  # a name at a server elsewhere
        return []


@contextlib.contextmanager
def _folder(options: argparse.Namespace) -> Iterator[Path]:
    """The folder for files. It is writable, and is removed again if it stays empty."""
    stamp = now_utc().translate(str.maketrans("", "", "-:"))
    folder = Path(options.output or f"fastqps-bench-{options.mode}-{stamp}")
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"--output: cannot write to {folder}: {error.strerror}") from None
    try:
        yield folder
    finally:
        if made and not any(folder.iterdir()):
            folder.rmdir()


def _write(result: Result, folder: Path) -> None:
    from fastqps.bench.report.page import write_report  # it imports matplotlib, which takes a second

    failure = None
    try:
        result.write(folder)
        write_report(result, folder)
    except OSError as error:
        failure = BenchError(f"cannot write the results to {folder}: {error.strerror}")
    # Last: a reader that has gone must not take the files away, nor a full disk the table.
    print_result(result)
    if failure is not None:
        raise failure
    say(f"files: {folder}")
