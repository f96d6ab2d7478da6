# One command each; every target installs what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SOURCES := schema runner analysis reports
# Tests that compare times with a server's log run one after another; the others, which mostly wait, two at a time.
TIMED   := tests/runner/client tests/runner/instrument tests/runner/test_instrument.py tests/runner/test_truth.py

.PHONY: help install demo test lint typecheck calibration vllm vllm-test vllm-demo performance clean

help:
	@echo "make demo         run cards/quickstart.yaml on the embedded engine; the report's path is printed last"
	@echo "make test         lint, types and every test but those that need a real vLLM"
	@echo "make calibration  thousands of synthetic experiments through the analysis; writes reports/CALIBRATION.md (minutes)"
	@echo "make vllm         install a real vLLM (CPU) and its model into .venv-vllm and .models"
	@echo "make vllm-test    the tests against the real vLLM"
	@echo "make performance  the measuring client beside others, and what it and the analysis must hold (run nothing else meanwhile)"
	@echo "make vllm-demo    run cards/vllm-prefix-caching.yaml on the real vLLM"

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "benchcard needs Python 3.11 or newer; found " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(STAMP)

install: $(STAMP)

demo: install
	$(BIN)/benchcard run cards/quickstart.yaml

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy reads the package as it is installed (a wheel, with its py.typed), not the folders in the checkout.
typecheck: install
	rm -rf build
	$(BIN)/python -m pip install --quiet --no-deps --target build/installed .
	MYPYPATH=build/installed $(BIN)/mypy --namespace-packages --explicit-package-bases \
		$(foreach package,$(SOURCES),-p benchcard.$(package))

test: lint typecheck
	$(BIN)/pytest -n 2 --dist loadfile --ignore=tests/vllm $(addprefix --ignore=,$(TIMED))
	$(BIN)/pytest $(TIMED)

calibration: install
	$(BIN)/python -m tests.calibration

vllm:
	$(PYTHON) tests/vllm/setup/install.py

vllm-test: install vllm
	$(BIN)/pytest tests/vllm

vllm-demo: install vllm
	$(BIN)/benchcard run cards/vllm-prefix-caching.yaml

performance: install
	$(BIN)/python -m pip install --quiet --editable '.[performance]'
	$(BIN)/python tests/performance/compare.py
	$(BIN)/python tests/performance/must_hold.py
	$(BIN)/python -m tests.performance.analysis_speed

clean:
	rm -rf build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
