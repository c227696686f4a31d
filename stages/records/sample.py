"""A benchmark item: one image and one question about it."""

from stages.records.base import Record


class Sample(Record):
    """One image-question pair, the unit of resampling in every interval."""

    id: str
    """Unique within the study, stable across machines, e.g. ``okvqa-2971475``."""
    domain: str
    """The benchmark that it belongs to in tables by domain, e.g. ``okvqa``."""
    image: str
    """SHA-256 of the image's PNG file, which lies at ``images/<image>.png``."""
    width: int
    """Width of the image in pixels."""
    height: int
    """Height of the image in pixels."""
    question: str
    """The question as the target reads it."""
    system_prompt: str | None = None
    """What the target is told beforehand, e.g. that it sees from the ego vehicle; None: nothing."""
    reference: str | None = None
    """The publisher's answer, for accuracy on originals; None where there is none."""
    group: str | None = None
    """What ties samples together beyond the image (a scene, a category); None: nothing."""
    source: str | None = None
    """Where the item comes from, as the publisher names it (file or id)."""
