"""``python -m fastqps.models.scores.child CPU_S``: renders a template with given variables, within limits of CPU time.

It reads ``{"template", "variables"}`` as JSON from its standard input, a list of variables for each text, and writes a
list of ``[text, error]``. A template has no ``strftime_now``: a model's answers do not change with the date.
"""

from __future__ import annotations

from typing import Any

import jinja2

from fastqps.models.chat.child import answer, question
from fastqps.models.chat.environment import environment


def main() -> None:
    """Serves one template."""
    asked = question()
    sandbox = environment()
    del sandbox.globals["strftime_now"]
    try:
        template = sandbox.from_string(asked["template"])
    except (jinja2.TemplateError, RecursionError, SyntaxError) as error:
        answer([["", f"not a Jinja template: {error}"]] * len(asked["variables"]))
        return
    answer([_rendered(template, variables) for variables in asked["variables"]])


def _rendered(template: jinja2.Template, variables: Any) -> tuple[str, str]:
    try:
        return str(template.render(variables)), ""
    except MemoryError:
        raise
    except Exception as error:  # a template's own faults are of any kind
        return "", str(error) or type(error).__name__


if __name__ == "__main__":
    main()
