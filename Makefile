# opdb.  `make demo` and `make test` need Python 3.11 or newer with venv, a C compiler and Python's headers; both
# install everything else into .venv.  Repeated calls do only what changed.

PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13; do \
	$$p -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --quiet --no-compile
# pip compiles one file after another; this takes all cores.  What does not compile (templates, Python 2) is never imported.
BYTE_CODE = $(BIN)/python -m compileall -q -j 0 -x '/tests?/' $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# Without byte code each of some 500 commands that the tests run compiles opdb anew.
unexport PYTHONDONTWRITEBYTECODE
# Everything that `make` starts works on its own database, not on the user's.
export OPDB_URL := sqlite:///$(CURDIR)/build/opdb.db

PACKAGING := pyproject.toml setup.py opdb/core/version.py
C_SOURCES := $(shell find runtime generated/c -name '*.[ch]' -o -name 'build_cffi.py')
# Templates of ExecuTorch's generator have its marks and are no C++.
C_FILES := $(shell find runtime opdb -path '*/templates' -prune -o \( -name '*.[ch]' -o -name '*.cpp' \) -print)
# Vendor code that crashes has to die of the signal, and has to find fresh memory as malloc gives it.
ASAN := detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_abort=0:max_malloc_fill_size=0
# A child with a limit on its address space, and the growth of memory: neither goes with AddressSanitizer.
NOT_SANITIZED := --ignore tests/runtime/qnn/test_context_info.py \
	--deselect tests/runtime/qnn/test_context.py::test_a_thousand_switches_do_not_leak
ASAN_LIBRARY = $(shell $${CC:-gcc} -print-file-name=libasan.so)
# How many op configs `make fuzz` tries in all.
CONFIGS := 1000000
SANITIZED := $(CURDIR)/build/sanitize/lib
SANITIZE_FLAGS := -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
TESTS := tests
# Other versions of QNN's libraries, which the tests compare with the installed one: 2.49 (the only one seen that
# reads a chip's number at byte 4) and 2.51.  They lie beside the environment, not in the user's data folder.
OTHERS := 2.5.0 2.7.0
OTHERS_HOME := $(CURDIR)/.venv/share
OTHER_LIBRARIES := $(OTHERS_HOME)/opdb/qnn-libraries/onnxruntime-qnn-2.5.0:$(OTHERS_HOME)/opdb/qnn-libraries/onnxruntime-qnn-2.7.0
PYTEST := OPDB_QNN_LIBRARIES=$(OTHER_LIBRARIES) tools/with-chromium tools/with-wasm tools/with-gtest tools/with-hexagon \
	tools/with-postgres $(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder
# A test that hangs ends its process after ten minutes, and the run, by name; the sweep has longer tests.
HANGS := --max-worker-restart 0 -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

.PHONY: setup demo quick test lint format generated unit slow older-executorch aimet breadth sweep sanitized sanitize fuzz mutants conformance site bench wheels clean
.DELETE_ON_ERROR:

setup: .venv/compiled

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "make: no Python 3.11 or newer with venv found; install it (Debian: apt-get" \
		"install python3 python3-venv python3-dev) or call make PYTHON=/path/to/python3"; exit 1; }
	@echo "setup: a virtual environment in .venv, $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv

# torch first: another requirement must not choose another build of it.
.venv/torch: .venv/bin/python
	@echo "setup: torch"
	@$(PIP) "$$(sed -n 's/^torch = \["\(torch==[^"]*\)"\]/\1/p' pyproject.toml)"
	@touch $@

.venv/installed: .venv/torch $(PACKAGING)
	@echo "setup: opdb with all extras"
	@$(BIN)/python -m pip uninstall --quiet --quiet --yes opdb    # the name of this checkout's package before 0.4
	@OPDB_COMPILE=later $(PIP) --editable '.[all]'
	@mkdir -p build && $(BYTE_CODE) >build/byte-code.txt || true
	@touch $@

.venv/compiled: .venv/installed $(C_SOURCES)
	@echo "setup: C modules"
	@$(BIN)/python setup.py -q build_ext --inplace
	@touch $@

.venv/others: .venv/compiled
	@for v in $(OTHERS); do echo "setup: QNN libraries of onnxruntime-qnn $$v" && \
		XDG_DATA_HOME=$(OTHERS_HOME) $(BIN)/opdb libraries install $$v >build/libraries.txt || \
		{ cat build/libraries.txt; exit 1; }; done
	@touch $@

demo: setup
	@$(BIN)/opdb demo --report report/

# What a commit must not break, in 30 seconds once mypy's cache is warm.  Not mypy's daemon: it crashes at the second run
# (KeyError: 'torch', mypy 2.4.1) because torch is skipped.
quick: setup
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --diff .
	@rm -rf build/quick && $(BIN)/python setup.py -q build_py --build-lib build/quick 2>/dev/null
	@cd build/quick && ../../$(BIN)/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache \
		--no-error-summary -p opdb >../mypy.txt || { ../../tools/repository-paths <../mypy.txt; exit 1; }
	@$(BIN)/pytest -q -n 2 -m "not slow and not breadth and not sweep" tests/spec tests/core tests/judge

test: setup lint generated unit

# mypy and import-linter do not know package_dir: they get the tree as it is installed.
lint: setup
	@echo "lint: ruff, clang-format"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --diff .
	@$(BIN)/clang-format --dry-run -Werror $(C_FILES)
	@echo "lint: mypy --strict"
	@rm -rf build/lint && $(BIN)/python setup.py -q build_py --build-lib build/lint
	@cd build/lint && ../../$(BIN)/mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache \
		--no-error-summary -p opdb >../mypy.txt || { ../../tools/repository-paths <../mypy.txt; exit 1; }
	@echo "lint: layers"
	@cd build/lint && ../../$(BIN)/lint-imports --config ../../pyproject.toml \
		--cache-dir ../../.import_linter_cache >../layers.txt || { cat ../layers.txt; exit 1; }

format: setup
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format --quiet . ; $(BIN)/clang-format -i $(C_FILES)

generated: setup
	@echo "generated: opdb generate --check, tools/reference.py --check, tools/figures.py --check"
	@mkdir -p build && $(BIN)/opdb init >build/init.txt || { cat build/init.txt; exit 1; }
	@$(BIN)/opdb generate --check --force
	@$(BIN)/python tools/reference.py --check
	@$(BIN)/python tools/figures.py --check

unit: setup .venv/others
	@echo "tests: pytest, 2 processes"
	@$(PYTEST) $(HANGS) -m "not sweep and not breadth and not slow" $(TESTS)

slow: setup .venv/others
	@echo "slow: pytest, 2 processes"
	@$(PYTEST) $(HANGS) -m "slow and not sweep and not breadth" $(TESTS)

# The oldest release of ExecuTorch that opdb plugs into, in an environment laid over .venv.
OLDER = $(shell sed -n '/^RELEASES/s/[^"]*"\([^"]*\)".*/\1/p' opdb/plugins/executorch/env.py)

.venv-older/installed: .venv/installed opdb/plugins/executorch/env.py
	@echo "setup: executorch $(OLDER) over .venv, in .venv-older"
	@rm -rf .venv-older && $(BIN)/python -m venv --without-pip .venv-older
	@$(BIN)/python tools/lay-over .venv-older executorch==$(OLDER)
	@touch $@

# The core of the suites with it: builders, register, the modules that ExecuTorch gets wrong, quantized ones, a .pte run.
CORE := tests/plugins/executorch/test_env.py tests/plugins/executorch/test_patches.py tests/plugins/executorch/test_upstream.py \
	tests/plugins/executorch/test_registration.py \
	tests/plugins/executorch/test_flow.py tests/plugins/executorch/test_known_faults.py tests/plugins/executorch/test_quantized.py

older-executorch: setup .venv/others .venv-older/installed
	@echo "tests: pytest with executorch $(OLDER), 2 processes"
	@OPDB_QNN_LIBRARIES=$(OTHER_LIBRARIES) .venv-older/bin/python -m pytest -q -n 2 --dist loadfile \
		--no-loadscope-reorder $(HANGS) -m "not breadth and (older or not sweep)" $(CORE)

# AIMET, in an environment laid over .venv.  onnx2torch requires torchvision, which has no build for torch without CUDA there.
AIMET = $(shell sed -n 's/^aimet = \["\([^"]*\)".*/\1/p' pyproject.toml)

.venv-aimet/installed: .venv/installed
	@echo "setup: $(AIMET) over .venv, in .venv-aimet"
	@rm -rf .venv-aimet && $(BIN)/python -m venv --without-pip .venv-aimet
	@$(BIN)/python tools/lay-over .venv-aimet $(AIMET) onnx2torch==1.5.15 --with bokeh hvplot jsonschema osqp
	@touch $@

# What calls AIMET itself.
aimet: setup .venv-aimet/installed
	@echo "tests: pytest with $(AIMET)"
	@.venv-aimet/bin/python -m pytest -q $(HANGS) -m "" tests/cli/test_rounding.py

# The tests of generated kernel libraries need headers that the wheel of the newer ExecuTorch does not have.
OLDER_GTEST = tools/with-gtest .venv-older/bin/python -m pytest -q $(HANGS)
KERNELS := tests/plugins/executorch/test_kernel_gtest.py

breadth: setup .venv/others .venv-older/installed
	@echo "breadth: pytest, 2 processes"
	@$(PYTEST) $(HANGS) -m "breadth and not sweep" $(TESTS)
	@echo "breadth: tests of generated kernel libraries, with executorch $(OLDER)"
	@$(OLDER_GTEST) -m "breadth and not sweep" $(KERNELS)

sweep: setup .venv/others .venv-older/installed
	@echo "sweep: the long tests"
	@OPDB_QNN_LIBRARIES=$(OTHER_LIBRARIES) tools/with-gtest tools/with-hexagon tools/with-postgres \
		$(BIN)/pytest -q -n 2 -m sweep $(TESTS)
	@echo "sweep: the tests of all kernels, with executorch $(OLDER)"
	@$(OLDER_GTEST) -o faulthandler_timeout=0 -m sweep $(KERNELS)

# C modules compiled with AddressSanitizer and UBSan.
sanitized: setup
	@echo "sanitized: C modules with -fsanitize=address,undefined"
	@rm -rf build/sanitize
	@CFLAGS="$(SANITIZE_FLAGS)" LDFLAGS="-fsanitize=address,undefined" $(BIN)/python setup.py -q build \
		--build-base build/sanitize --build-lib $(SANITIZED)

# The native tests on them.
sanitize: sanitized
	@echo "sanitize: pytest -m native"
	@PYTHONPATH=$(SANITIZED) LD_PRELOAD="$(ASAN_LIBRARY)" ASAN_OPTIONS=$(ASAN) \
		OPDB_EXPECT_TREE=$(SANITIZED) PYTHONMALLOC=malloc sh -c '$(BIN)/pytest -q -n 2 --dist loadfile -m "native and not sweep" $(TESTS) && \
		$(BIN)/pytest -q -m "not native and not sweep" $(NOT_SANITIZED) tests/runtime/qnn tests/lower/quantize'

# Random op configs and buffers through them, by one process; a run that was ended goes on.
fuzz: sanitized
	@PYTHONPATH=$(SANITIZED):tests/property LD_PRELOAD="$(ASAN_LIBRARY)" ASAN_OPTIONS=$(ASAN) \
		$(BIN)/python -P tests/property/fuzz.py --configs $(CONFIGS)

# Faults in the C of op packages, each of which has to be found.
mutants: setup
	@$(BIN)/python benchmarks/package_mutants
	@$(BIN)/python benchmarks/package_mutants --sanitize

conformance: setup
	@$(BIN)/opdb init && $(BIN)/opdb conformance run
	@$(BIN)/opdb conformance report --format html --output report/conformance

# The catalog as a static site, with validators in WebAssembly where clang is.
site: setup
	@tools/with-wasm $(BIN)/opdb site --output report/site

bench: setup
	@for b in benchmarks/[a-z]*.py; do echo "bench: $$b" && $(BIN)/python $$b || exit 1; done

# One for all versions of Python, tried with each that is here; SUITES="bookworm trixie sid": in bare roots of Debian, too.
wheels: setup
	@$(BIN)/python tools/wheels $(SUITES:%=--debian %)

clean:
	rm -rf .venv .venv-older .venv-aimet build dist report *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find opdb codegen generated runtime migrations -name '*.so' -delete
