# Each target does all it needs on a fresh machine with make and Python 3.11 to 3.13, in a folder of any name.
#   make book      set up, build the book, serve it and print the address
#   make test      check package, labs and text
SHELL := /bin/bash
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
PORT ?= 8000
WORKERS ?= 2
READY := .venv/ready
# Everything runs as a module: the scripts beside this Python do not start where the folder's name holds a space.
PY := .venv/bin/python
STEP := $(PY) book/step.py
BOOK := $(PY) -c 'from jupyter_book.cli.main import main; main()' build .
PYTEST := OMP_NUM_THREADS=1 $(PY) -m pytest -n $(WORKERS)
PLACES := embed rotate bias weigh several
export PYTHONUTF8 := 1
# Empty is off. Where it is set, each process compiles all of torch again, six seconds of it: hundreds start here.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help book html serve pdf zip quick place test test-all coverage lint labs lab pictures screenshot measure \
	training-speed vendor links kernel-report slides clean

help:
	@grep -E '^#   make|^## ' Makefile | sed 's/^#* *//'

# --no-compile: most of what is installed is never imported, the rest is compiled when it is.
$(READY): requirements.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "posenc needs Python 3.11, 3.12 or 3.13: none was found; install one, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@"$(PYTHON)" -m venv .venv
	@$(STEP) "set up" _build/setup.log $(PY) -m pip install -qq --no-compile -r requirements.txt
	@touch $(READY)

## make html: build the book into _build/html, warnings are errors; the whole log is _build/build.log
html: $(READY)
	@POSENC_PRESET=nano POSENC_BOOK=1 OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 \
		$(STEP) build _build/build.log $(BOOK) --warningiserror --keep-going

book: html serve

## make serve: serve what is built (PORT=8000)
serve: $(READY)
	@echo "The book is at http://127.0.0.1:$(PORT)/ (stop with Ctrl-C)"
	@$(PY) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html 2>/dev/null

## make quick PLACE=rotate: the tests of one place (embed, rotate, bias, weigh, several), in under a minute
quick: place $(READY)
	@$(PYTEST) -q -m "not slow and not browser" --place $(PLACE) tests/$(PLACE) tests/test_*.py

place:
	@$(if $(filter $(PLACE),$(PLACES)),:,echo "PLACE=$(PLACE) is none of $(PLACES): write make quick PLACE=rotate"; exit 2)

test: $(READY)
	@$(PYTEST) -q -m "not slow and not browser"

## make test-all: the gate: all of the above, the built pages in a real browser, the labs on Colab's versions
test-all: test html
	@$(PYTEST) -q --dist loadfile -m "(slow or browser) and not alone and not weekly"
	@OMP_NUM_THREADS=1 $(PY) -m pytest -q -m "alone and not weekly" tests/site

## make pdf: the whole book as one PDF, _build/posenc.pdf, and a check of it (needs Chromium)
pdf: html
	$(PY) book/pdf.py
	$(PY) book/pdf.py --check

## make zip: the site to unpack and open from disk, _build/posenc-book.zip
zip: html
	$(PY) book/offline.py

## make slides: write the slides of six sessions into slides/, HTML and PDF (needs Chromium)
slides: $(READY)
	OMP_NUM_THREADS=1 $(PY) book/slides.py

## make lint: ruff over code, tests and notebooks
lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

## make labs: write notebooks/ from course/
labs: $(READY)
	$(PY) course/labs.py

## make lab: open the labs in JupyterLab
lab: $(READY)
	$(PY) -m jupyter lab notebooks

## make pictures: draw the static picture of each explorable (needs Chromium)
pictures: $(READY)
	$(PY) -m posenc.lab.figures pictures

## make screenshot: take the README's pictures from the built book (needs Chromium)
screenshot: html
	$(PY) book/screenshot.py

## make training-speed: time the training of each method beside a plain PyTorch transformer (on a quiet machine)
training-speed: $(READY)
	$(PY) benchmarks/training_speed.py

benchmarks/lighthouse/node_modules: benchmarks/lighthouse/package-lock.json
	npm ci --prefix benchmarks/lighthouse --ignore-scripts
	@touch $@

## make measure: Lighthouse's scores and the sliders' times of the built pages (Node, Chromium, a quiet machine)
measure: html benchmarks/lighthouse/node_modules
	$(PY) benchmarks/published_page.py

## make coverage: fail where the tests reach less than 95 % of the references' branches
coverage: $(READY)
	$(PYTEST) -m "not slow and not browser" $(PLACES:%=tests/%) tests/test_*.py \
		--cov --cov-branch --cov-report=term-missing --cov-fail-under=95

## make kernel-report: compile every kernel for GPUs of six kinds and print what each gets (Linux; needs no GPU)
kernel-report: $(READY)
	OMP_NUM_THREADS=1 $(PY) -m posenc.lab.experiments.kernel_report

## make vendor: fetch plotly, Temml and the math font anew at the versions in book/vendor/vendor.json
vendor: $(READY)
	$(PY) book/vendor/fetch.py

## make links: try every external link (needs the network; not part of the gate)
links: $(READY)
	@$(STEP) links _build/links.log $(BOOK) --builder linkcheck

## make clean: forget what was built
clean:
	rm -rf _build
