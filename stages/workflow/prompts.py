"""The prompt sets of `prompts/`: which files a set has, and what each is given."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages.models.prompt import Prompt
from stages.records.errors import UserError
from stages.workflow import params as parameters

_CASE = frozenset(
    {
        "question",
        "original_answer",
        "original_explanation",
        "edits",
        "new_answer",
        "new_explanation",
    }
)
VARIABLES: Mapping[str, frozenset[str]] = {
    "target_question": frozenset({"question"}),
    "target_why": frozenset(),
    "concepts": frozenset({"question", "answer", "explanation", "k"}),
    "instructions": frozenset({"question", "answer", "explanation", "concepts", "n"}),
    "parse_edit": frozenset({"instruction"}),
    "verifier": frozenset({"instruction"}),
    "edit": frozenset({"keep", "change", "appearance", "avoid"}),
    "judge_binary": _CASE,
    "judge_graded": _CASE,
    "judge_binary_images": _CASE,
    "judge_graded_images": _CASE,
    "repair": frozenset({"reason"}),
}


def load(root: Path, params: Mapping[str, Any], name: str) -> Prompt:
    """Load one prompt of the study's set and check that it declares what it will be given."""
    folder = root / "prompts" / parameters.value(params, "prompts", str)
    if not folder.is_dir():
        raise UserError(
            "params.yaml: prompts", f"there is no folder {folder}", "Name a folder of prompts/."
        )
    path = folder / f"{name}.txt"
    prompt = Prompt.load(path)
    given = VARIABLES[name]
    if set(prompt.variables) != given:
        raise UserError(
            str(path),
            f"declares {', '.join(sorted(prompt.variables)) or 'no variable'}",
            f"It is given exactly: {', '.join(sorted(given)) or 'none'}.",
        )
    return prompt
