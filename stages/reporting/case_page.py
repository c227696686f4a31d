"""The gallery: one HTML file with every intervention, filtered and read in the browser.

It opens from disk and asks nothing of any network. A page from disk may fetch no file, so the cases
lie in the page itself, as JSON that no text can break out of. Only the page's own script may run:
its hash stands in the page's content security policy.
"""

import base64
import hashlib
import json

from markupsafe import Markup

from stages.reporting.cases import Json, gallery_data
from stages.reporting.prints import Prints
from stages.reporting.study import Study
from stages.reporting.templating import environment, source
from stages.reporting.words import varying_axes

SCRIPTS = ("dom", "diff", "facets", "state", "images", "case", "panel", "list", "main")
"""Parts of the page's script in the order in which they build on one another."""


def render(study: Study, prints: Prints) -> str:
    """Make the page of every case; its images are the prints beside it."""
    templates = environment()
    parts = [source(templates, f"gallery/{name}.js").strip() for name in SCRIPTS]
    script = '"use strict";\n(() => {\n' + "\n\n".join(parts) + "\n})();"
    if "</script" in script.lower():
        raise ValueError("the gallery's script would end its own element")
    data = {
        **gallery_data(study, prints),
        "axes": varying_axes(study.cells) if study.cells else [],
        "unit": "intervention" if study.cells else "pair",
    }
    return templates.get_template("gallery.html").render(
        study=study,
        data=Markup(embedded(data)),
        script=Markup(script),
        script_sha256=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def embedded(data: Json) -> str:
    """JSON that may stand inside a script element: it holds no angle bracket and no ampersand."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
