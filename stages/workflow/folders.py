"""Where artefacts lie: `data/<stage>/<cell>`, named by the axes that the stage depends on."""

from pathlib import Path

from stages.records.score import Cell


class Folders:
    """The folders of a workspace.

    Parameters
    ----------
    root : Path
        The workspace: the folder that holds `params.yaml`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plan = root / "data" / "plan"
        self.prepare = root / "data" / "prepare"
        self.calibration = root / "data" / "calibration"
        self.annotations = root / "data" / "annotations"
        self.annotation_keys = root / "data" / "annotation_keys"
        self.score = root / "data" / "score"
        self.reference = root / "data" / "reference"
        self.reports = root / "reports"
        self.forms = root / "reports" / "annotation"

    def baseline(self, cell: Cell) -> Path:
        """Answers to the originals."""
        return self._cell("baseline", cell.target, cell.seed)

    def concepts(self, cell: Cell) -> Path:
        """Concepts of the explanations."""
        return self._cell("concepts", cell.target, cell.extractor, cell.seed)

    def instructions(self, cell: Cell) -> Path:
        """Instruction chains."""
        return self._cell("instructions", cell.target, cell.extractor, cell.seed)

    def edit(self, cell: Cell) -> Path:
        """Attempts, and the images that belong to them."""
        return self._cell("edit", cell.target, cell.extractor, cell.editor, cell.seed)

    def requery(self, cell: Cell) -> Path:
        """Answers to the edited images."""
        return self._cell("requery", cell.target, cell.extractor, cell.editor, cell.seed)

    def judge(self, cell: Cell) -> Path:
        """Verdicts."""
        return self._cell("judge", cell.target, cell.extractor, cell.editor, cell.judge, cell.seed)

    def pairs(self, name: str) -> Path:
        """Verification of pairs made elsewhere."""
        return self._cell("pairs", name)

    def weights(self, target: str) -> Path:
        """Weights of a target that the study trains."""
        return self._cell("weights", target)

    def pretrain(self, target: str) -> Path:
        """How a small model was trained."""
        return self._cell("pretrain", target)

    def finetune(self, target: str) -> Path:
        """What an adapter changed."""
        return self._cell("finetune", target)

    def edit_of(self, cell: str) -> Path:
        """Attempts of the cell of that name, ``target-extractor-editor-seed``."""
        return self._cell("edit", cell)

    def _cell(self, stage: str, *axes: object) -> Path:
        return self.root / "data" / stage / "-".join(str(axis) for axis in axes)
