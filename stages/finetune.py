"""Fine-tune: an adapter from verified counterfactuals, and what it changes (PROTOCOL section 8).

Reads the samples, the edits that were made for the base target, and its weights. Writes the adapter
to `data/weights/<name>`, which is one more target of the matrix, and to `data/finetune/<name>`:
`readings.jsonl` (loss and exactness of each example at each kept epoch), `curve.jsonl`,
`attention.jsonl` and the adapters of all kept epochs. A training that was killed goes on from its
last epoch.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stages.models.picture import Picture
from stages.records import jsonl
from stages.records.attempt import Attempt
from stages.records.sample import Sample
from stages.records.tuning import Curve, Split
from stages.training import lora, tuning
from stages.training.base import Base
from stages.training.examples import (
    Example,
    check,
    counterfactuals,
    masks_of,
    originals,
    read_labels,
)
from stages.training.progress import Progress, states_folder
from stages.training.prompting import Prompting
from stages.workflow import params as parameters
from stages.workflow import prompts, sections
from stages.workflow.folders import Folders
from stages.workflow.runner import main


def run(root: Path, params: Mapping[str, Any], *, tuned: str) -> None:
    """Train one adapter and look at each kept epoch."""
    folders = Folders(root)
    study = parameters.section(params, "tuning", sections.Tuning)
    made = parameters.section(params["finetune"], tuned, sections.Finetune)
    edits = folders.edit_of(study.cell)
    attempts = jsonl.read(edits / "attempts.jsonl", Attempt)
    samples = jsonl.read(folders.prepare / "samples.jsonl", Sample)
    labels = read_labels(root / made.labels) if made.labels else None
    masks = masks_of(attempts)
    splits: dict[Split, list[Example]] = {}
    for split, domains in (("train", study.train), ("held_out", study.held_out)):
        those = [sample for sample in samples if sample.domain in domains]
        verified = counterfactuals(those, attempts, labels, verified=True)
        splits[split] = [*originals(those, masks), *verified]  # type: ignore[index]
    taught = [e for e in splits["train"] if e.images == "original"]
    if made.teach != "originals":
        those = [e.sample for e in taught]
        gated = made.teach == "edits"
        taught += counterfactuals(those, attempts, labels, verified=gated)
    check(splits, taught)

    def load(example: Example) -> Picture:
        original = example.images == "original"
        return Picture.load((folders.prepare if original else edits) / "images", example.image)

    def mask_of(example: Example) -> Any:
        return Picture.load(edits / "images", str(example.mask)).pixels[..., 0] > 127

    base = Base.load(
        root,
        study.model,
        quantization=made.quantization,
        device=study.device,
        dtype=study.dtype,
        max_pixels=study.max_pixels,
        revision=study.revision,
    )
    question = prompts.load(root, params, "target_question")
    prompting = Prompting(
        base.processor, lambda text: question.render(question=text), study.say, load
    )
    recipe = lora.Recipe(**made.recipe())
    model = lora.add_adapter(base.model, recipe)
    about = key(study, made, base.identity, question.sha256, taught)
    progress = Progress(states_folder(root), about, every=1)
    states, curve = lora.train(
        model, prompting, taught, recipe, progress, pad=base.pad, told=_told(tuned)
    )
    out = folders.finetune(tuned)
    watch = tuning.Watch(tuple(made.layers), made.sink_ratio, made.drop)
    shown = splits["held_out"]
    jsonl.write(
        out / "readings.jsonl",
        tuning.readings(
            model, prompting, splits, states, target=tuned, batch=made.batch, pad=base.pad
        ),
    )
    jsonl.write(
        out / "attention.jsonl",
        tuning.attention_rows(model, prompting, shown, states, watch, mask_of, target=tuned),
    )
    jsonl.write(
        out / "curve.jsonl",
        [Curve(target=tuned, epoch=e, loss=round(x, 6), correct=round(y, 6)) for e, x, y in curve],
    )
    for epoch, state in states.items():
        lora.put_state(model, state)
        lora.save(model, out / "epochs" / str(epoch))
    lora.save(model, folders.weights(tuned))
    print(
        f"finetune {tuned}: {len(taught)} examples, {recipe.epochs[-1]} epochs, {curve[-1][1]:.4f}"
    )


def key(
    study: sections.Tuning,
    made: sections.Finetune,
    base: Mapping[str, str],
    prompt: str,
    taught: Sequence[Example],
) -> dict[str, Any]:
    """All that shapes an adapter: a training goes on from a state of equal key alone."""
    return {
        "base": dict(base),
        "dtype": study.dtype,
        "made_by": lora.made_by(quantized=bool(made.quantization)),
        "recipe": made.model_dump(),
        "prompt": prompt,
        "say": study.say,
        "max_pixels": study.max_pixels,
        "taught": [[e.sample.system_prompt, e.sample.question, e.image, e.label] for e in taught],
    }


def _told(tuned: str) -> Any:
    return lambda line: print(f"finetune {tuned}: {line}", flush=True)


if __name__ == "__main__":
    main("finetune", run, axes=("tuned",))
