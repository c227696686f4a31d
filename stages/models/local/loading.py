"""Weights into memory: once a process, whole, and with errors that say what to do."""

import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

from stages.models.local.checkpoint import Checkpoint
from stages.models.local.faults import explained, installed
from stages.models.local.placement import Placement
from stages.records.errors import UserError

T = TypeVar("T")
_held: "weakref.WeakValueDictionary[Hashable, Any]" = weakref.WeakValueDictionary()
_users: "weakref.WeakKeyDictionary[Any, threading.RLock]" = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def once(key: Hashable, make: Callable[[], T]) -> T:
    """What was made under this key and is still in use, or make it.

    Two adapters of a stage that name the same weights share them; when the last one goes, they go.
    """
    with _lock:
        held: T | None = _held.get(key)
        if held is None:
            held = make()
            _held[key] = held
        return held


def alone(held: object) -> threading.RLock:
    """A lock for what adapters share, which one thread may use at a time."""
    with _lock:
        return _users.setdefault(held, threading.RLock())


def pretrained(
    auto: str,
    checkpoint: Checkpoint,
    placement: Placement,
    device: str = "cpu",
    *,
    library: str = "transformers",
    **options: Any,
) -> Any:
    """Load a model by one of the library's Auto classes, in evaluation mode.

    Parameters
    ----------
    auto : str
        Name of the class, e.g. ``AutoModelForImageTextToText``.
    checkpoint, placement
        Which weights, in which precision.
    device : str
        One of ``placement.devices()``.
    library : str
        Package that has the class.
    **options
        Further arguments of ``from_pretrained``, e.g. ``attn_implementation``.

    Raises
    ------
    UserError
        Where the weights are missing or incomplete, do not fit, or changed meanwhile.
    """
    installed("torch", library)
    folder = _named(checkpoint)
    with _lock, explained(checkpoint.model, revision=checkpoint.revision):
        made, report = _class_of(library, auto).from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=checkpoint.trust_remote_code,
            output_loading_info=True,
            **placement.options(device),
            **options,
        )
        absent = sorted({*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])})
        if absent:  # the library fills them with random numbers
            raise UserError(
                checkpoint.model,
                f"lacks {len(absent)} of the weights that {type(made).__name__} has, "
                f"{absent[0]} the first",
                "Check that the checkpoint is whole, and of this kind.",
            )
        checkpoint.check_unchanged()
        return made.eval()


def with_lora(model: Any, adapter: Checkpoint) -> Any:
    """Put a PEFT adapter on a model, in evaluation mode; it must fit, and be whole."""
    folder = _named(adapter)
    with _lock, explained(adapter.model), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that weights are missing, which is an error below
        from peft import PeftModel

        made = PeftModel.from_pretrained(model, folder)
        # Loaded once more, since the first time it tells nobody what it did not find.
        report = made.load_adapter(folder, made.active_adapter)
        for keys, what in ((report.missing_keys, "lacks"), (report.unexpected_keys, "has")):
            if keys:
                raise UserError(
                    adapter.model,
                    f"{what} {len(keys)} weights, {sorted(keys)[0]} the first, where "
                    f"{type(model).__name__} {'has' if what == 'lacks' else 'lacks'} them",
                    "Check that the adapter is whole, and was trained on this model.",
                )
        adapter.check_unchanged()
        return made.eval()


def companion(auto: str, checkpoint: Checkpoint, **options: Any) -> Any:
    """Load what stands beside the weights: ``AutoProcessor``, ``AutoTokenizer``, ``AutoConfig``."""
    installed("transformers")
    folder = _named(checkpoint)
    with _lock, explained(checkpoint.model, revision=checkpoint.revision):
        made = _class_of("transformers", auto).from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=checkpoint.trust_remote_code,
            **options,
        )
        checkpoint.check_unchanged()
        return made


def _named(checkpoint: Checkpoint) -> Path:
    """Where the files lie, after what they are has been settled."""
    checkpoint.identity()
    return checkpoint.folder()


def release() -> None:
    """Give back the memory of weights that nobody holds any more."""
    gc.collect()
    if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def _class_of(library: str, name: str) -> Any:
    import importlib

    module = importlib.import_module(library)
    if library == "transformers" and not sys.stderr.isatty():
        module.utils.logging.disable_progress_bar()
    return getattr(module, name)
