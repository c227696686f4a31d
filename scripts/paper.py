"""All tables of the paper: run its studies one after the other and gather what they write.

    python -m scripts.paper [--demo] [override …]

A matrix is a product; the paper's tables are not one. So Tables 1, 3 and 4 are the study `paper`,
and Tables 2 and 5 are studies of their own. The store answers what they share. Tables go to
`reports/paper/`, the page and figures of each study to `reports/paper/<study>/`; `params.yaml` is
as before in the end, so the next `dvc repro` brings its own study back.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from stages.records.errors import UserError
from stages.workflow.compose import compose

STUDIES = {
    "paper": ("table1", "table3", "table4", "published"),
    "table2": ("table2", "effects"),
    "table5": ("table5",),
}
DEMO = {"demo": STUDIES["paper"], "table2_demo": STUDIES["table2"], "table5_demo": ("table5",)}


def main() -> int:
    """Run the studies; the exit status is that of the first that fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--demo", action="store_true", help="the demo's twins, without a key")
    parser.add_argument("overrides", nargs="*", help="as for Hydra, for every study")
    chosen = parser.parse_args()
    params, gathered = Path("params.yaml"), Path("reports/paper")
    before = params.read_bytes()
    try:
        for study, tables in (DEMO if chosen.demo else STUDIES).items():
            params.write_text(compose(Path(), [f"study={study}", *chosen.overrides]))
            done = subprocess.run(["dvc", "repro"], check=False)
            if done.returncode:
                return done.returncode
            gather(Path("reports"), gathered, study, tables)
    except UserError as error:
        print(f"paper: {error}", file=sys.stderr)
        return 1
    finally:
        params.write_bytes(before)
    print(f"paper: tables in {gathered}")
    return 0


def gather(reports: Path, gathered: Path, study: str, tables: tuple[str, ...]) -> None:
    """Copy a study's tables, and its whole report beside them."""
    folder = gathered / study
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("tables", "figures", "images"):
        shutil.copytree(reports / name, folder / name)
    for page in ("index.html", "gallery.html"):
        shutil.copy2(reports / page, folder)
    for table in tables:
        for path in (reports / "tables").glob(f"{table}.*"):
            shutil.copy2(path, gathered)


if __name__ == "__main__":
    sys.exit(main())
