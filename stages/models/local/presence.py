"""Are a model's weights on this disk? Said before a run, without loading them."""

from stages.models.local.checkpoint import Checkpoint, offline
from stages.models.protocol import Finding
from stages.records.errors import UserError


def presence(checkpoint: Checkpoint) -> list[Finding]:
    """What a preflight says of a checkpoint; a branch or tag is looked up on the Hub if need be."""
    try:
        found = checkpoint.on_disk()
    except UserError as error:
        return [Finding("wrong", f"{error.where}: {error.what}", error.remedy)]
    if found is not None:
        return [Finding("ok", f"the weights of {checkpoint.label} are on this disk")]
    missing = f"the weights of {checkpoint.model} are not on this disk"
    if offline():
        return [Finding("wrong", missing, "Download them, or unset HF_HUB_OFFLINE.")]
    return [Finding("note", missing, "The first call downloads them.")]
