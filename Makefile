# `make` alone prints what there is to type. Needs GNU make, 3.81 or newer, and /bin/sh.
# It builds .venv; the work is done by notebooks/__main__.py, which needs no make.

# The Python that .venv is built with; empty: the first of PYTHONS that is 3.11 or newer.
PYTHON ?=
PYTHONS = python3.14 python3.13 python3.12 python3.11 python3 python
# Another version of torch, as in `make test TORCH=2.14.1`: it gets an environment of its own.
TORCH ?=
# Not empty: `make lab` opens the chapters with the notes for the lecturer.
LECTURE =
# What `make lab` opens: work (your copies), lecture (with notes) or notebooks (the originals).
DIR = $(if $(LECTURE),lecture,work)
# More arguments for JupyterLab, such as --no-browser.
LAB_ARGS =
# Which chapter: NB=03. `make notebooks` and `make slides` take FORCE=1, too: also what is up to date.
NB =
FORCE =
# What `make bench` measures: empty, a short table; 1, the long one.
FULL =
PDF =

# The version that constraints.txt pins, and lives in .venv.
PINNED := $(shell sed -n 's/^torch==//p' constraints.txt)
OTHER := $(filter-out $(PINNED),$(TORCH))
VENV := .venv$(addprefix -torch-,$(OTHER))
PY := $(VENV)/bin/python
COURSE := $(PY) -m notebooks
PIP := $(PY) -m pip --disable-pip-version-check --no-input
LOG := $(VENV)/install.log
# The book's own package, which tests compare with. Its requirements are years old: not installed.
D2L := d2l==1.0.3

# Only what is in .venv counts, whatever this machine has besides.
unexport JUPYTER_PATH PYTHONHOME PYTHONPATH

.PHONY: help lab test lint notebooks slides site bench constraints clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

lab: $(VENV)/.lab-stamp ## open the course, your own copies in work/ (LECTURE=1: with the lecturer's notes)
	@$(COURSE) lab --open $(DIR) $(LAB_ARGS)

test: $(VENV)/.test-stamp ## all that CI checks: lint, unit tests, every notebook cell, the browser (NB=03: this chapter)
	@$(COURSE) test $(NB)

lint: $(VENV)/.test-stamp ## ruff, for mistakes and for format, and the core's types
	@$(COURSE) lint

notebooks: $(VENV)/.lab-stamp ## bring notebooks/ up to notebooks/src/ (NB=03: this one, FORCE=1: also what is up to date)
	@$(COURSE) notebooks $(if $(FORCE),--force) $(NB)

slides: $(VENV)/.test-stamp ## one file a chapter for the lecture room, no network needed: build/slides (NB=03: this one)
	@$(COURSE) slides $(if $(FORCE),--force) $(NB)

site: $(VENV)/.test-stamp ## the whole course as pages to read, for any web server or none: build/site/index.html (PDF=1: also on paper)
	@$(COURSE) site $(if $(PDF),--pdf)

bench: $(VENV)/.test-stamp ## speed against d2l and PyTorch: two minutes (FULL=1: all, a quarter of an hour)
	@$(COURSE) bench $(if $(FULL),--full)

# Pinned on the oldest Python: what installs there installs on newer ones.
constraints: PYTHONS = python3.11
constraints: ## pin every package anew, from a throw-away environment (TORCH=2.14.1: with this torch)
	@$(find-python); \
	trap 'rm -rf .venv-pins' EXIT; \
	"$$python" -m venv --clear .venv-pins; \
	pip=".venv-pins/bin/python -m pip --disable-pip-version-check"; \
	$$pip install --quiet "torch==$(or $(TORCH),$(PINNED))" ".[dev]"; \
	$$pip install --quiet --no-deps "$(D2L)"; \
	$$pip list --format=freeze --exclude pip --exclude d2l-attention > .venv-pins/all; \
	sed 's/+.*//' .venv-pins/all > constraints.txt
	@echo "constraints.txt pins $$(grep -c . constraints.txt) packages. Run make test before you keep it."

clean: ## remove .venv and all else that is made; work/ and lecture/ stay
	@rm -rf .venv .venv-pins .venv-torch-* build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find d2l_attention notebooks tests \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# ---- The set-up: .venv, then what is installed in it ---------------------------------------

# Stops the recipe, or leaves the Python to use in $$python.
define find-python
set -e; python=; \
for candidate in $(or $(PYTHON),$(PYTHONS)); do \
	if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
		python=$$candidate; break; \
	fi; \
done; \
if [ -z "$$python" ]; then \
	echo "The course needs Python 3.11 or newer; tried: $(or $(PYTHON),$(PYTHONS))." \
		"Install one, or say where it is: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; \
	exit 1; \
fi; \
if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	echo "$$("$$python" --version) has no venv module. On Debian and Ubuntu this adds it:" \
		"sudo apt install python3-venv. Then type make $(MAKECMDGOALS) again."; \
	exit 1; \
fi
endef

define explain
if grep -qE 'NewConnection|NameResolution|Timeout|Proxy|SSL|Max retries' $(LOG); then \
	echo "The package index cannot be reached. Connect to the network (behind a proxy, set" \
		"HTTPS_PROXY) and type make $(MAKECMDGOALS) again. Details: $(LOG)"; \
else \
	echo "pip could not install the course. The end of $(LOG):"; tail -n 15 $(LOG); \
fi; \
exit 1
endef

# .venv holds absolute paths: in a folder that was moved, or without its Python, it is built anew.
ifneq ($(shell test -x $(PY) && cat $(VENV)/.made 2>/dev/null),$(shell pwd -P))
.PHONY: $(VENV)/.made
endif

$(VENV)/.made:
	@$(find-python); \
	echo "Building $(VENV) with $$("$$python" --version)."; \
	"$$python" -m venv --clear $(VENV); \
	pwd -P > $@

$(VENV)/.lab-stamp: EXTRA = notebooks
$(VENV)/.test-stamp: EXTRA = dev

# Another torch may need another setuptools than the pinned one; all else stays as it is pinned.
# The stamp comes last, so an installation that was interrupted is done again.
$(VENV)/.lab-stamp $(VENV)/.test-stamp: pyproject.toml constraints.txt $(VENV)/.made
	@echo "Installing the course into $(VENV): minutes the first time, torch is large (see $(LOG))."
	@sed -E '$(if $(OTHER),s/^torch==.*/torch==$(OTHER)/; /^setuptools==/d)' constraints.txt > $(VENV)/pins.txt
	@$(PIP) install -c $(VENV)/pins.txt -e ".[$(EXTRA)]" > $(LOG) 2>&1 || { $(explain); }
	@test $(EXTRA) != dev || $(PIP) install --no-deps "$(D2L)" >> $(LOG) 2>&1 || { $(explain); }
	@touch $(VENV)/.lab-stamp $@
