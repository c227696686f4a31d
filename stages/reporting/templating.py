"""How the pages are filled in: templates that escape whatever they are given."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from stages.reporting import words

if TYPE_CHECKING:
    from jinja2 import Environment


def environment() -> "Environment":
    """The templates of this room; an unknown name in one is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("stages.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "plain": words.plain,
        "breakable": lambda value: escape(value).replace("_", Markup("_<wbr>")),
        "reason": words.reason,
        "percent": words.percent,
    }
    made.filters |= filters
    return made


def source(environment: "Environment", name: str) -> str:
    """A file of the templates as it is written, with line feeds alone."""
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0].replace("\r\n", "\n")
