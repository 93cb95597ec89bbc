"""``python -m loadgen``: options, plan, run, results, exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loadgen import files, options, plan, results, terminal
from loadgen import run as runs
from loadgen.atomic_file import replace_file
from loadgen.errors import FAILURE, INTERRUPTED, INVALID, OK, UNSTABLE, LoadgenError
from loadgen.run import Run
from loadgen.verdict import Verdict

_CODES = {"VALID": OK, "UNSTABLE": UNSTABLE, "INVALID": INVALID}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the load that is asked for; returns the exit code. What a user can mend is one line on stderr."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(arguments)
    except LoadgenError as error:
        print(f"loadgen: {error}", file=sys.stderr)
        return error.exit_code
    except MemoryError:
        print("loadgen: not enough memory for a run of that many calls", file=sys.stderr)
        return FAILURE
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone
        return FAILURE
    except OSError as error:
        if error.filename is None:
            raise
        print(f"loadgen: cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return FAILURE
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: list[str]) -> int:
    o = options.parse(arguments)
    for path in filter(None, (o.json if o.json != "-" else None, o.samples, o.calls)):
        files.require_folder(path)  # before the run, not after it
    made = plan.make(o)
    engine = runs.engine_for(made, o)
    progress = terminal.Progress(made, o.progress == "json")
    try:
        run = runs.measure(engine, made, o, progress, progress.started)
    finally:
        runs.close(engine)
    verdict = results.verdict_of(run)
    document = results.document(run, verdict, o, arguments)
    if o.json:
        text = json.dumps(document, indent=1) + "\n"
        if o.json == "-":
            print(text, end="", flush=True)
        else:
            replace_file(Path(o.json), text)
    if o.samples:
        files.write_samples(o.samples, run)
    if o.calls:
        files.write_calls(o.calls, run)
    if set(document["status_with_warmup"]) - results.NEVER_ANSWERED == {"UNIMPLEMENTED"}:
        raise LoadgenError(f"the server has no method {o.method}: all calls were answered UNIMPLEMENTED")
    terminal.show(document, sys.stderr if o.json == "-" or o.progress == "json" else sys.stdout)
    return exit_code(run, verdict, document)


def exit_code(run: Run, verdict: Verdict, document: dict[str, Any]) -> int:
    """The exit code of a run that has results."""
    if run.interrupted:
        return INTERRUPTED
    if verdict.failed:
        raise LoadgenError(verdict.reasons[0])
    verified = document["verified"]
    if verified and verified["wrong"]:
        raise LoadgenError(f"{verified['wrong']:,} of {verified['checked']:,} answers were wrong")
    return _CODES[verdict.word]
