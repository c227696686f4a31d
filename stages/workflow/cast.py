"""The models of a stage, made from parameters: who is asked, and by way of which calls."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stages.models.acceptance import Acceptance, Verifier
from stages.models.account import Account, Budget
from stages.models.calls import Calls
from stages.models.dialogue import Clerk, Interviewer
from stages.models.prices import Prices
from stages.models.protocol import Chat, Detector, Segmenter
from stages.models.store import Store
from stages.models.verification import Gate
from stages.workflow import adapters, prompts, sections
from stages.workflow import params as parameters


def calls_of(root: Path, params: Mapping[str, Any]) -> Calls:
    """The way to models: the store, and the account of the study within its budget."""
    store = Store.open(root)
    account = Account.of(
        store,
        str(params.get("study", "")),
        Prices.load(root / "conf" / "prices.yaml"),
        budget(params),
    )
    return Calls(store, account)


def budget(params: Mapping[str, Any]) -> Budget:
    """What the study may spend: by its parameters, or by EDCT_BUDGET_USD instead."""
    limits = parameters.section(params, "limits", sections.Limits)
    return Budget.of(limits.budget_usd, limits.budget_calls)


def interviewer(root: Path, params: Mapping[str, Any], target: str, seed: int) -> Interviewer:
    """The target of a cell and the two turns that it is asked in."""
    return Interviewer(
        calls_of(root, params),
        adapters.build(params, f"targets.{target}", Chat),
        prompts.load(root, params, "target_question"),
        prompts.load(root, params, "target_why"),
        parameters.section(params, "generation", sections.Generation).max_tokens,
        seed,
    )


def clerk(
    root: Path,
    params: Mapping[str, Any],
    role: str,
    name: str,
    seed: int,
    calls: Calls | None = None,
) -> Clerk:
    """An extractor or a judge, which replies in JSON."""
    model = adapters.build(params, f"{role}s.{name}", Chat)
    return _clerk(root, params, role, model, seed, calls or calls_of(root, params))


def _clerk(
    root: Path, params: Mapping[str, Any], role: str, model: Chat, seed: int, calls: Calls
) -> Clerk:
    return Clerk(calls, role, model, prompts.load(root, params, "repair"), seed)


def acceptance(root: Path, params: Mapping[str, Any], seed: int) -> Acceptance:
    """The gate, and the verifier where the study has one."""
    measured = gate(root, params)
    mode = parameters.verification(params)[0].with_verifier
    if params.get("verifier") is None:
        return Acceptance(measured, None, mode)
    model = adapters.build(params, "verifier", Chat)
    looks = Verifier(
        _clerk(root, params, "verifier", model, seed, measured.calls),
        prompts.load(root, params, "verifier"),
        parameters.section(params, "generation", sections.Generation).max_tokens,
    )
    return Acceptance(measured, looks, mode)


def gate(root: Path, params: Mapping[str, Any]) -> Gate:
    """The gate: detector, segmenter, how change is measured, and the thresholds."""
    thresholds, settings = parameters.verification(params)
    return Gate(
        calls_of(root, params),
        adapters.build(params, "detector", Detector),
        adapters.build(params, "segmenter", Segmenter),
        settings,
        thresholds.tau_in,
        thresholds.tau_out,
    )
