# Each target does all it needs on a fresh machine with make and Python 3.11 to 3.13, in a folder of any name, but for
# what its line here says it comes after, or needs.
#   make book      set up, build the book, serve it and print the address
#   make test      check package, labs and text
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
PORT ?= 8000
WORKERS ?= 2
READY := .venv/ready
TESTED := .venv/tests
# Everything runs as a module: the scripts beside this Python do not start where the folder's name holds a space.
PY := .venv/bin/python
STEP := $(PY) book/_tools/step.py
BOOK := $(PY) -c 'import sys; sys.path.insert(0, "book/_ext"); import warm; warm.start(); from jupyter_book.cli.main import main; main()' build .
# One hash seed, so that each run is the same run; the next free test goes to the worker that is free.
PYTEST := PYTHONHASHSEED=0 OMP_NUM_THREADS=1 $(PY) -m pytest -q -n $(WORKERS) --dist worksteal
PLACES := embed rotate bias weigh several
export PYTHONUTF8 := 1
# Empty is off. Where it is set, each process compiles all of torch again, six seconds of it: hundreds start here.
export PYTHONDONTWRITEBYTECODE :=

.NOTPARALLEL:
.PHONY: help book html serve pdf zip page quick place test test-site test-browser test-grading test-all weekly faults coverage lint labs lab \
	pictures screenshot measure training-speed vendor links kernel-report clean

help:
	@grep -E '^#   make|^## ' Makefile | sed 's/^#* *//'

# --no-compile: most of what is installed is never imported, the rest is compiled when it is.
INSTALL := _build/setup.log $(PY) -m pip install -qq --no-compile --retries 1
# The pip of Python 3.11 takes twice the time over the same wheels.
PIP := pip==26.3
NO_NETWORK = { echo "What is missing could not be installed: connect to the network, or name an index in PIP_INDEX_URL, and run make again"; exit 1; }

$(READY): requirements.txt pyproject.toml
	@"$(or $(PYTHON),false)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || { \
		echo "posenc needs Python 3.11, 3.12 or 3.13, and $(or $(PYTHON),python3) is none: install one, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@"$(PYTHON)" -m venv .venv
	@$(STEP) pip $(INSTALL) $(PIP) || $(NO_NETWORK)
	@$(STEP) "set up" $(INSTALL) -r requirements.txt || $(NO_NETWORK)
	@touch $(READY)

$(TESTED): tests/requirements.txt $(READY)
	@$(STEP) "test tools" $(INSTALL) -r requirements.txt -r tests/requirements.txt || $(NO_NETWORK)
	@touch $(TESTED)

## make html: build the book into _build/html, warnings are errors; the whole log is _build/build.log
html: $(READY)
	@POSENC_PRESET=nano POSENC_BOOK=1 OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 \
		$(STEP) build _build/build.log $(BOOK) --warningiserror --keep-going

book: html serve

## make serve: serve what is built (PORT=8000)
serve: $(READY)
	@echo "The book is at http://127.0.0.1:$(PORT)/ (stop with Ctrl-C)"
	@$(PY) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html 2>/dev/null

## make page PAGE=rope: run the cells of one chapter, as the build does, and print what they print
page: $(READY)
	@POSENC_PRESET=nano OMP_NUM_THREADS=1 PYDEVD_DISABLE_FILE_VALIDATION=1 $(PY) book/_tools/page.py $(PAGE)

## make quick PLACE=rotate: the tests of one place (embed, rotate, bias, weigh, several), in under a minute
quick: place $(TESTED)
	@$(PYTEST) -m "not weekly and not site and not browser and not grading" --place $(PLACE) tests/$(PLACE) tests/test_*.py

place:
	@$(if $(filter $(PLACE),$(PLACES)),:,echo "PLACE=$(PLACE) is none of $(PLACES): write make quick PLACE=rotate"; exit 2)

test: $(TESTED)
	@$(PYTEST) -m "not weekly and not site and not browser and not grading"

## make test-site: what is built, without a browser: bytes, links, descriptions, nothing given away (after make html)
test-site: $(TESTED)
	@$(PYTEST) -m "site and not weekly" tests/site

## make test-browser: each page once, and the player of the figures, in Chromium (after make html)
test-browser: $(TESTED)
	@$(PYTEST) -m "browser and not weekly" tests/site tests/book tests/lab book

## make test-grading: a lab through nbgrader, solved and undone
test-grading: $(TESTED)
	@$(PYTEST) -n 0 -m "grading and not weekly" tests/notebooks

## make test-all: what .ci/run runs, one after the other: lint, test, html and the three above (needs Chromium)
test-all: lint test html test-site test-browser test-grading

## make weekly: the slow tests, the timed ones, those of other programs' versions (long; Chromium, the network)
weekly: html $(TESTED)
	@failed=0; \
	HYPOTHESIS_PROFILE=weekly $(PYTEST) --timeout 3600 tests/test_properties.py || failed=1; \
	$(PYTEST) --timeout 1800 --dist loadfile -m weekly || failed=1; \
	exit $$failed

## make faults: plant fifty faults, one at a time, and tell which the gate names (half an hour; after make html)
faults: $(TESTED)
	@$(PY) tests/faults.py

## make pdf: the whole book as one PDF, _build/posenc.pdf, and a check of it (needs Chromium)
pdf: html $(TESTED)
	$(PY) book/_tools/pdf.py

## make zip: the site to unpack and open from disk, _build/posenc-book.zip
zip: html
	$(PY) book/_tools/offline.py

## make lint: ruff over code, tests and notebooks
lint: $(TESTED)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	@! grep -rn --include='*.py' 'wait_for_timeout' tests book/*/test_*.py || { echo "a browser test awaits posencExplorables.idle(), or what it expects"; exit 1; }
	@! grep -rnE --include='*.py' 'parametrize\("[^"]*", (set\(|frozenset\(|\{[^:]*\}\))' tests book/*/test_*.py || \
		{ echo "cases come in an order: write a list, not a set"; exit 1; }

## make labs: write notebooks/ from the chapters' lab.py
labs: $(TESTED)
	$(PY) book/_tools/labs.py

## make lab: open the labs in JupyterLab
lab: $(READY)
	$(PY) -m jupyter lab notebooks

## make pictures: draw the static picture of each explorable (needs Chromium)
pictures: $(TESTED)
	$(PY) book/_tools/stills.py

## make screenshot: take the README's pictures from the built book (needs Chromium)
screenshot: html $(TESTED)
	$(PY) book/_tools/screenshot.py

## make training-speed: time the training of each method beside a plain PyTorch transformer (on a quiet machine)
training-speed: $(READY)
	$(PY) benchmarks/training_speed.py

## make measure: Lighthouse's scores of the built pages (Node, Chromium, a quiet machine)
measure: html $(TESTED)
	$(PY) benchmarks/published_page.py

## make coverage: fail where the tests reach less than 95 % of the references' branches
coverage: $(TESTED)
	$(PYTEST) -m "not weekly and not site and not browser and not grading" $(PLACES:%=tests/%) tests/test_*.py \
		--cov --cov-branch --cov-report=term-missing --cov-fail-under=95

## make kernel-report: compile every kernel for GPUs of six kinds and print what each gets (Linux; needs no GPU)
kernel-report: $(READY)
	OMP_NUM_THREADS=1 $(PY) benchmarks/kernel_report.py

## make vendor: fetch plotly, Temml and the math font anew at the versions in book/_vendor/vendor.json
vendor: $(READY)
	$(PY) book/_vendor/fetch.py

## make links: try every external link (needs the network; not part of the gate)
links: $(READY)
	@$(STEP) links _build/links.log $(BOOK) --builder linkcheck

## make clean: forget what was built
clean:
	rm -rf _build
