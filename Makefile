# Two commands do everything: `make run` and `make test`. Needs Python ≥ 3.11, git and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

SOAK := tests/faults tests/models/test_models_injection.py $(addprefix tests/pipeline/test_pipeline_,kills.py kills_dvc.py kills_ray.py interrupt.py disk.py)

.DEFAULT_GOAL := help
.PHONY: help install status preflight dry-run spending run test soak soak-http audit bench test-all extras params check-params lint store-export store-import bench-export bench-replay annotate annotate-import clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

run: $(VENV)/run.stamp  ## run the study of params.yaml, print its main table
	@test -s dvc.lock || rm -f dvc.lock  # DVC leaves it empty when it is killed while writing
	dvc repro
	@python -m stages.reporting.summary reports

status: $(VENV)/run.stamp  ## what is done, what is missing, what failed and why, what is left to pay
	@python -m stages.status

preflight: $(VENV)/run.stamp  ## would every model answer? One small paid call a role (CALLS=0: none)
	@python -m stages.workflow.preflight $(if $(filter 0,$(CALLS)),--no-calls)

dry-run: $(VENV)/run.stamp  ## what the study would call and cost (LIVE=1: prices of the day)
	@python -m stages.spending estimate $(if $(filter 1,$(LIVE)),--live)

spending: $(VENV)/run.stamp  ## what was spent so far, by the ledger, failed calls included
	@python -m stages.spending spent

test: $(VENV)/dev.stamp check-params lint  ## install what the tests need and run all of them
	python -m pytest -n 2 --dist loadfile $(PYTEST)

test-all: $(VENV)/local.stamp  ## the same with all that `test` skips: local models (torch) and the browser
	EDCT_TESTS=all OMP_NUM_THREADS=1 $(MAKE) test

soak: $(VENV)/dev.stamp  ## the fault suite in its long form: 200 kills and more; writes docs/soak.md (tens of minutes)
	-python -m pip install --quiet --disable-pip-version-check -r requirements/fuzz.txt
	EDCT_BOOK=$(CURDIR)/docs/soak.md python -m pytest $(SOAK) $(PYTEST)

soak-http: $(VENV)/dev.stamp  ## 300 samples, every role over HTTP on loopback, a tenth of all requests faulty
	EDCT_SOAK=300 EDCT_BOOK=$(CURDIR)/docs/soak.md python -m pytest -s tests/pipeline/test_pipeline_http.py $(PYTEST)

audit:  ## known vulnerabilities of all that is pinned (asks PyPI; what it can't look up is a failure)
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	for file in requirements/*.txt; do $(VENV)/audit/bin/pip-audit --strict --no-deps --disable-pip -r $$file || exit 1; done

bench: $(VENV)/dev.stamp  ## what it costs, against baselines: docs/speed.md (make bench TOPICS=calls: one topic)
	python -m bench $(TOPICS)

params: $(VENV)/run.stamp  ## compose params.yaml from conf/, e.g. make params STUDY="study=pairs chain.k=1"
	python -m stages.workflow.compose $(STUDY)

check-params: $(VENV)/run.stamp  ## does params.yaml equal the composition of conf/?
	python -m stages.workflow.compose --check

lint: $(VENV)/dev.stamp  ## formatting, style and types
	ruff check .
	ruff format --check .
	mypy

install: $(VENV)/run.stamp  ## the virtual environment and what the pipeline needs

extras: $(VENV)/run.stamp  ## what other models need, e.g. make extras EXTRAS=api (see pyproject.toml)
	python -m pip install --quiet --disable-pip-version-check -c requirements/run.txt -e ".[$(EXTRAS)]"

store-export: $(VENV)/run.stamp  ## all replies as one file that DVC carries
	python -m stages.models.store export data/store.tar
	dvc add --quiet data/store.tar
	@echo "now: git add data/store.tar.dvc && git commit && dvc push"

store-import: $(VENV)/run.stamp  ## take over the replies that a colleague exported
	@test -f data/store.tar || dvc pull --quiet data/store.tar.dvc
	python -m stages.models.store import data/store.tar

bench-export: $(VENV)/run.stamp  ## the finished run as a data set: make bench-export FOLDER=…
	python -m stages.exchange export $(FOLDER)

bench-replay: $(VENV)/run.stamp  ## somebody's run again, without models: make bench-replay FOLDER=…
	python -m stages.exchange replay $(FOLDER)
	python -m stages.workflow.compose study=replay
	dvc repro

annotate: $(VENV)/run.stamp  ## forms for annotators of the finished run (docs/annotation.md)
	python -m stages.annotation write

annotate-import: $(VENV)/run.stamp  ## take in what annotators sent back: make annotate-import FILES="…"
	python -m stages.annotation import $(FILES)

clean:  ## remove the virtual environment; results, caches and the store stay
	rm -rf $(VENV)

$(VENV)/python.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python ≥ 3.11 is needed; name one: make run PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/run.stamp: $(VENV)/python.stamp requirements/run.txt
	@echo "installing the packages of requirements/run.txt (one to three minutes the first time)"
	@python -m pip install --quiet --disable-pip-version-check -r requirements/run.txt
	touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp requirements/dev.txt
	python -m pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	touch $@

# torch comes as its own metadata says; a build for the CPU that is there already is kept. The sam2
# package has no wheel and would fetch a second torch to build with.
$(VENV)/local.stamp: $(VENV)/dev.stamp requirements/local.txt
	@echo "installing the packages of requirements/local.txt (torch is large)"
	python -m pip install --quiet --disable-pip-version-check -r requirements/local.txt
	python -m pip install --quiet --disable-pip-version-check "setuptools>=77" wheel
	SAM2_BUILD_CUDA=0 python -m pip install --quiet --disable-pip-version-check --no-build-isolation "sam2==1.1.0"
	touch $@
