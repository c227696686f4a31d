"""The data card of an artefact: what is in it, how it was made, what it measures, whose it is.

The front matter is what the Hub and `datasets` read: one configuration a table, features as
``dataset_info`` writes them, sizes. What each column means is taken from the records themselves.
"""

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from stages.models.artefact import schema
from stages.models.artefact.layout import EDITS, TABLES, Provenance, Table


class Size(NamedTuple):
    """How large a split is."""

    rows: int
    memory: int
    """Bytes as Arrow holds them."""
    files: int
    """Bytes on disk."""


LICENCES: Mapping[str, str] = {
    "stages.benchmarks.demo": "Painted by this project; the project's own licence, Apache-2.0.",
    "stages.benchmarks.okvqa": (
        "OK-VQA: questions and answers under CC BY 4.0. The photographs are COCO's and belong to "
        "their Flickr authors, each under a licence of its own; Flickr's terms of use apply to "
        "them and to edits of them."
    ),
    "stages.benchmarks.drivelm": (
        "DriveLM: CC BY-NC-SA 4.0. The images are from nuScenes, whose terms are non-commercial "
        "and must be accepted by every user; they, and edits of them, may not be published "
        "outside these terms."
    ),
    "stages.benchmarks.threedsrbench": (
        "3DSRBench: annotations under CC BY 4.0. The photographs are COCO's: as for OK-VQA."
    ),
    "stages.benchmarks.edct_bench": (
        "Another EDCT-Bench artefact: what its data card says holds here as well."
    ),
}
_UNKNOWN = "The publisher's terms, which this project does not know. Find out before passing it on."
_SIZES = ((1000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (10**6, "100K<n<1M"))
_AXES = {
    "target": "Name of the target under test.",
    "extractor": "Name of the extractor; null where the row does not depend on it.",
    "editor": "Name of the editor; null where the row does not depend on it.",
    "judge": "Name of the judge.",
    "seed": "Seed of the run.",
}


def render(made: Provenance, sizes: Mapping[str, Size]) -> str:
    """The text of README.md."""
    front = yaml.safe_dump(front_matter(made, sizes), sort_keys=False, allow_unicode=True)
    return f"---\n{front}---\n\n{_body(made)}"


def front_matter(made: Provenance, sizes: Mapping[str, Size]) -> dict[str, Any]:
    """The card's YAML."""
    total = sum(size.rows for size in sizes.values())
    return {
        "pretty_name": f"EDCT-Bench ({made.study})",
        "license": "other",
        "license_name": "per-source",
        "task_categories": ["visual-question-answering"],
        "tags": [
            "counterfactual",
            "explanations",
            "faithfulness",
            "vision-language-models",
            "edct",
        ],
        "size_categories": [next((name for n, name in _SIZES if total < n), "1M<n<10M")],
        "configs": [
            {
                "config_name": table.name,
                **({"default": True} if table is EDITS else {}),
                "data_files": [
                    {"split": split, "path": f"data/{table.name}/{split}-*.parquet"}
                    for split in table.splits
                ],
            }
            for table in TABLES
        ],
        "dataset_info": [_info(table, sizes) for table in TABLES],
    }


def _info(table: Table, sizes: Mapping[str, Size]) -> dict[str, Any]:
    of = {split: sizes[f"{table.name}/{split}"] for split in table.splits}
    return {
        "config_name": table.name,
        "features": [schema.card_feature(*column) for column in schema.columns(table).items()],
        "splits": [
            {"name": split, "num_bytes": size.memory, "num_examples": size.rows}
            for split, size in of.items()
        ],
        "download_size": sum(size.files for size in of.values()),
        "dataset_size": sum(size.memory for size in of.values()),
    }


def _body(made: Provenance) -> str:
    samples, accepted = made.rows["samples/test"], made.rows["edits/accepted"]
    return (
        "\n\n".join(
            [
                f"# EDCT-Bench: {samples} questions, {accepted} verified counterfactuals",
                textwrap.dedent(
                    """\
                A finished run of Explanation-Driven Counterfactual Testing: a vision-language
                model answered a question about an image and explained its answer; the visual
                concepts that the explanation cites were edited in the image, one after the other;
                each edit was verified by where the image changed; the model was asked again, and
                a judge said whether the new answer and the new explanation fit the edited image."""
                ),
                _use(made),
                _estimand(made),
                "## How it was made\n\n" + _how(made),
                "## Licences\n\n" + _licences(made),
                "## Columns\n\n" + "\n\n".join(_columns(table) for table in TABLES),
            ]
        )
        + "\n"
    )


def _use(made: Provenance) -> str:
    left_out = "" if made.pictures == "all" else " Pictures of rejected edits were left out.\n"
    return f"""## Use

```python
from datasets import load_dataset

edits = load_dataset("PATH", "edits", split="accepted")      # edited_picture, instruction, …
samples = load_dataset("PATH", "samples", split="test")      # picture, question, …
originals = {{row["id"]: row for row in samples}}              # edits name them by sample_id
```

An edit with `position` 2 starts from the accepted edit with `position` 1 of the same sample and
cell. Pictures are PNG files, named by the SHA-256 of their bytes.{left_out or chr(10)}
With the pipeline that made it:

```
dvc exp run -S study=bench -S benchmarks.edct_bench.folder=PATH \\
  -S 'target=[MINE]' -S 'judge=[JUDGE]'    # a model of yours, on these edits
python -m stages.exchange replay PATH    # the run itself, from what is recorded here
```"""


def _estimand(made: Provenance) -> str:
    whose = ", ".join(f"`{name}`" for name in made.names("target"))
    return f"""## What a score on these edits means

The edits were derived from the explanations of {whose}. EDCT tests each model on its **own**
explanation, and published CCS values are of that kind. Another model, asked about these images, may
never have cited what was edited here. Its score then says how well its answers and explanations
keep up with verified changes of evidence that somebody else named. That is another estimand:

- do not put it beside a CCS from a model's own explanations, nor call it that model's CCS;
- models that were scored on the same edits by the same judge may be compared with each other,
  with the caution that the edits hit the evidence of the models that they were derived from;
- samples whose edits were all rejected, or whose explanation cited nothing, are not in it."""


def _how(made: Provenance) -> str:
    verify, chain = made.params.get("verify", {}), made.params.get("chain", {})
    accepted, rejected = made.rows["edits/accepted"], made.rows["edits/rejected"]
    lines = [
        f"- Cells: {len(made.cells)} (targets {', '.join(made.names('target'))}; extractors "
        f"{', '.join(made.names('extractor'))}; editors {', '.join(made.names('editor'))}; judges "
        f"{', '.join(made.names('judge'))}; seeds {', '.join(made.names('seed'))}).",
        f"- At most {chain.get('k')} edits a sample, {chain.get('max_attempts')} attempts an edit; "
        f"{accepted} attempts accepted, {rejected} not (or never reached).",
        f"- An edit is accepted iff more than {verify.get('tau_in')} of the target region and less "
        f"than {verify.get('tau_out')} of the rest changed (`measurement`).",
        f"- Digest of the parameters: `{made.params_digest}`; all of them: `provenance.json`.",
        f"- Digest of the code: `{made.code}`.",
    ]
    if parts := simulated(made.params):
        lines.append(f"- **Simulated, no real model**: {', '.join(f'`{part}`' for part in parts)}.")
    served = [
        f"| {s.role} | {_cell(s.model)} | {_cell(s.provider)} | {s.calls} |" for s in made.served
    ]
    prompts = [f"| `prompts/{name}` | `{sha}` |" for name, sha in made.prompts.items()]
    return "\n".join(
        [
            *lines,
            "",
            "| role | served model | provider | replies |",
            "| --- | --- | --- | --- |",
            *served,
            "",
            "| prompt | SHA-256 |",
            "| --- | --- |",
            *prompts,
        ]
    )


def simulated(params: Mapping[str, Any]) -> list[str]:
    """The models of a study that are built-in simulations."""
    groups = {
        f"{group}.{name}": config
        for group in ("targets", "extractors", "editors", "judges")
        for name, config in (params.get(group) or {}).items()
    }
    groups |= {role: params.get(role) for role in ("detector", "segmenter", "verifier")}
    return [
        key
        for key, config in groups.items()
        if isinstance(config, Mapping) and "demo" in str(config.get("_target_", ""))
    ]


def _cell(text: str | None) -> str:
    return "not said" if text is None else " ".join(text.split()).replace("|", "\\|")


def _licences(made: Provenance) -> str:
    notes = [
        f"- `{name}`: {licence(config)}"
        for name, config in (made.params.get("benchmarks") or {}).items()
    ]
    return "\n".join(
        [
            "Originals and edits of them stay under the terms of their sources:",
            "",
            *notes,
            "",
            "Answers, explanations, instructions and edited images were generated by the models "
            "named above; their providers' terms on outputs apply. **Before you publish this "
            "folder, make sure that every source allows it.**",
        ]
    )


def licence(config: Any) -> str:
    """The note on a benchmark's licence, by the class that its YAML names."""
    target = str(config.get("_target_", "")) if isinstance(config, Mapping) else ""
    return LICENCES.get(target.rpartition(".")[0], _UNKNOWN)


def _columns(table: Table) -> str:
    rows = [f"| `{axis}` | {_AXES[axis]} |" for axis in table.axes]
    rows += [f"| `{name}` | {text} |" for name, text in described(table.record).items()]
    rows += [f"| `{name}` | {text} |" for name, text in table.extra.items()]
    rows += [
        f"| `{name}` | The picture whose SHA-256 is in `{field}`; null where there is none. |"
        for name, field in table.pictures.items()
    ]
    return "\n".join(
        [f"### `{table.name}`", "", table.about, "", "| column | meaning |", "| --- | --- |", *rows]
    )


@cache
def described(record: type[BaseModel]) -> Mapping[str, str]:
    """Each field of a record with the sentence that its source has for it."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    assert isinstance(definition, ast.ClassDef)
    out = {}
    for field, after in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            out[field.target.id] = " ".join(str(after.value.value).split()).replace("|", "\\|")
    return out
