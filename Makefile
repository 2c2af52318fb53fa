# Each target does all it needs on a fresh machine with make and Python 3.11 to 3.13.
#   make book      set up, build the book, serve it and print the address
#   make test      check package, labs and text (about ten minutes)
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
PORT ?= 8000
WORKERS ?= 2
BIN := .venv/bin
READY := .venv/ready
export PYTHONUTF8 := 1

.PHONY: help book html serve pdf zip test test-all coverage lint labs lab pictures screenshot measure \
	training-speed vendor links kernel-report clean

help:
	@grep -E '^#   make|^## ' Makefile | sed 's/^#* *//'

$(READY): requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "posenc needs Python 3.11, 3.12 or 3.13: none was found; install one, or name it: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.txt
	@touch $(READY)

## make html: build the book into _build/html, warnings are errors
html: $(READY)
	POSENC_PRESET=nano POSENC_BOOK=1 OMP_NUM_THREADS=1 $(BIN)/jupyter-book build . --warningiserror --keep-going

book: html serve

## make serve: serve what is built (PORT=8000)
serve: $(READY)
	@echo "The book is at http://127.0.0.1:$(PORT)/ (stop with Ctrl-C)"
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not browser"

## make test-all: the gate: all of the above, the built pages in a real browser, the labs on Colab's versions
test-all: test html
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "(slow or browser) and not alone"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/test_explorables.py -m alone

## make pdf: the whole book as one PDF, _build/posenc.pdf, and a check of it (needs Chromium)
pdf: html
	$(BIN)/python book/pdf.py
	$(BIN)/python book/pdf.py --check

## make zip: the site to unpack and open from disk, _build/posenc-book.zip
zip: html
	$(BIN)/python book/offline.py

## make lint: ruff over code, tests and notebooks
lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

## make labs: write notebooks/ from course/
labs: $(READY)
	$(BIN)/python course/labs.py

## make lab: open the labs in JupyterLab
lab: $(READY)
	$(BIN)/jupyter lab notebooks

## make pictures: draw the static picture of each explorable (needs Chromium)
pictures: $(READY)
	$(BIN)/python -m posenc.lab.figures pictures

## make screenshot: take the README's picture from the built book (needs Chromium)
screenshot: html
	$(BIN)/python book/screenshot.py

## make training-speed: time the training of each method beside a plain PyTorch transformer (on a quiet machine)
training-speed: $(READY)
	$(BIN)/python benchmarks/training_speed.py

benchmarks/lighthouse/node_modules: benchmarks/lighthouse/package-lock.json
	npm ci --prefix benchmarks/lighthouse --ignore-scripts
	@touch $@

## make measure: Lighthouse, bytes, sliders and builds of the published page (Node, Chromium, a quiet machine)
measure: html benchmarks/lighthouse/node_modules
	$(BIN)/python benchmarks/published_page.py --build --chapters

REFERENCES := alibi attention bad_input exposb fire kerple learned methods properties rope rope_closely rse scaling shaw \
	sinusoidal stickbreaking t5 transformer_xl
## make coverage: fail where the tests reach less than 95 % of the references' branches
coverage: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not browser" $(REFERENCES:%=tests/test_%.py) \
		--cov --cov-branch --cov-report=term-missing --cov-fail-under=95

## make kernel-report: compile every kernel for GPUs of six kinds and print what each gets (Linux; needs no GPU)
kernel-report: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m posenc.lab.experiments.kernel_report

## make vendor: fetch plotly, Temml and the math font anew at the versions in book/vendor/vendor.json
vendor: $(READY)
	$(BIN)/python book/vendor/fetch.py

## make links: try every external link (needs the network; not part of the gate)
links: $(READY)
	$(BIN)/jupyter-book build . --builder linkcheck

## make clean: forget what was built
clean:
	rm -rf _build
