# make                builds ./train, and train-double beside it, in which gradients are checked
# make test           builds and runs every test;  make lint  checks format and scripts, and analyses the code
# make coverage       the tests' coverage of src/;  make fixtures  PyTorch's numbers again (see docs/testing.md)
# make race           what runs in parallel, under ThreadSanitizer;  make bits  whether training computes what it did
# make study          the experiments of docs/results.md, seven hours;  make study-quick  their main comparison
# make page           the tables and pictures of docs/results.md again, from docs/results (needs matplotlib)
# make notebook       the blocks of docs/notebook.md (needs pandas)
# make demo           docs/demo.html again, a page to try before anything is built;  make demo-picture  README's picture of it
# make fuzz SECONDS=5 each parser of a file under libFuzzer that long (needs clang);  make torture  failing calls and kills
# make analyze        what gcc's -fanalyzer remarks (minutes; see docs/reliability.md)
# make bench          how fast the standard configs train here, and where the time goes (see docs/performance.md)
# make SANITIZER=address,undefined [test]     the same with run-time checks
# make install PREFIX=/usr/local DESTDIR=     make uninstall     make dist     make clean
# make V=1            any of these with whole commands
# make MPI=1          builds train-mpi as well, one run by several processes (./setup.sh --mpi; docs/cluster.md)
# CC=clang works as well; each compiler and each set of checks has its own folder below build/.

# On a Mac gcc is clang without OpenMP, and Homebrew's compiler has its version in its name.
HOMEBREW := $(if $(filter Darwin,$(shell uname)),$(firstword $(wildcard /opt/homebrew /usr/local)))
GCC := $(or $(notdir $(lastword $(if $(HOMEBREW),$(sort $(wildcard $(HOMEBREW)/bin/gcc-[0-9]*))))),gcc)
CC := $(if $(filter default,$(origin CC)),$(GCC),$(CC))
PREFIX ?= /usr/local
PKG_CONFIG ?= pkg-config

# Debian ranks the pthread build of OpenBLAS above the OpenMP one; ask for the latter by its own folder. Homebrew keeps
# it out of pkg-config's path.
OPENBLAS_OPENMP := $(firstword $(wildcard /usr/lib/*/openblas-openmp/pkgconfig $(HOMEBREW)/opt/openblas/lib/pkgconfig))
pkg = $(shell PKG_CONFIG_PATH=$(OPENBLAS_OPENMP):$$PKG_CONFIG_PATH $(PKG_CONFIG) $(1) 2>/dev/null)
LIBRARIES := openblas jansson
FONT ?= $(firstword $(wildcard /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf /usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf \
	/usr/share/fonts/TTF/DejaVuSans.ttf /Library/Fonts/DejaVuSans.ttf $(HOME)/Library/Fonts/DejaVuSans.ttf))
STB := $(if $(call pkg,--cflags stb),$(call pkg,--cflags-only-I stb),-I$(firstword $(wildcard /usr/include/stb /usr/local/include/stb /opt/homebrew/include/stb)))

ifneq ($(filter-out clean uninstall dist,$(or $(MAKECMDGOALS),all)),)
ifeq ($(shell command -v $(PKG_CONFIG)),)
$(error pkg-config is missing: run ./setup.sh, which installs what the build needs)
endif
MISSING := $(foreach l,$(LIBRARIES),$(if $(call pkg,--modversion $(l)),,$(l))) $(if $(FONT),,DejaVuSans.ttf)
ifneq ($(strip $(MISSING)),)
$(error missing: $(strip $(MISSING)); run ./setup.sh, which installs what the build needs (a font elsewhere: make FONT=/path/to/DejaVuSans.ttf))
endif
endif

comma := ,
# The constants of an enum without a name are whole numbers here, and may meet doubles; clang 22 would warn.
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wno-enum-float-conversion
OPTIMISE := -O3 -fno-math-errno -fno-trapping-math
CFLAGS ?= -g
# Against what a mistake in memory could be used for; tests/test_hardening.sh reads it from the program. Sanitizers bring
# checks of their own. Before gcc 12 the C library warns of a _FORTIFY_SOURCE above 2.
FORTIFY := $(if $(filter 4 5 6 7 8 9 10 11,$(firstword $(subst ., ,$(shell $(CC) -dumpversion)))),2,3)
HARDENING := $(if $(SANITIZER)$(COVERAGE),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(FORTIFY)) -fstack-protector-strong
HARDENING_LDFLAGS := $(if $(HOMEBREW),,-Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now)
LANGUAGE := -std=gnu11 -D_GNU_SOURCE -fopenmp -Isrc \
	-isystem $(patsubst -I%,%,$(firstword $(STB))) $(patsubst -I%,-isystem %,$(foreach l,$(LIBRARIES) cmocka,$(call pkg,--cflags-only-I $(l))))
ALL_CFLAGS = $(LANGUAGE) $(WARNINGS) $(OPTIMISE) $(HARDENING) $(CFLAGS) -MMD -MP
ALL_LDFLAGS = -fopenmp $(HARDENING_LDFLAGS) $(LDFLAGS)
LDLIBS := $(call pkg,--libs $(LIBRARIES)) -Wl,-rpath,$(patsubst %/,%,$(call pkg,--variable=libdir openblas)) -lm
CMOCKA := $(or $(call pkg,--libs cmocka),-lcmocka)
ifdef COVERAGE
ALL_CFLAGS += --coverage -fprofile-update=atomic -DSANITIZED
ALL_LDFLAGS += --coverage
OPTIMISE := -O1
endif
ifdef SANITIZER
ALL_CFLAGS += -fsanitize=$(SANITIZER) -fno-sanitize-recover=all -fno-omit-frame-pointer -DSANITIZED
ALL_LDFLAGS += -fsanitize=$(SANITIZER)
OPTIMISE := -O2
endif

BUILD := build/$(notdir $(CC))$(if $(SANITIZER),-$(subst $(comma),-,$(SANITIZER)))$(if $(COVERAGE),-coverage)
SOURCES := $(wildcard src/*/*.c)
EMBEDDED := $(wildcard src/*/*.S)
FLOAT := $(SOURCES:%.c=$(BUILD)/float/%.o) $(EMBEDDED:%.S=$(BUILD)/embedded/%.o)
DOUBLE := $(SOURCES:%.c=$(BUILD)/double/%.o) $(EMBEDDED:%.S=$(BUILD)/embedded/%.o)

# Gradients are compared with differences in double precision, those of PyTorch, plain and theory in both; everything
# else is tested as it runs.
TESTS := $(patsubst tests/%.c,%,$(wildcard tests/test_*.c))
# Not on a Mac: functions of these tests stand in for system calls, and make those of Linux.
TESTS := $(filter-out $(if $(HOMEBREW),test_checkpoint_faults test_failures test_lock test_resume test_shares),$(TESTS))
DOUBLE_TESTS := $(filter test_gradient%,$(TESTS))
FLOAT_TESTS := $(filter-out $(DOUBLE_TESTS),$(TESTS))
BOTH_TESTS := $(filter test_torch test_plain test_theory,$(TESTS))
FUZZERS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
TEST_PROGRAMS := $(TESTS:%=$(BUILD)/%) $(BOTH_TESTS:%=$(BUILD)/%_double) $(FUZZERS:%=$(BUILD)/%)
RACES := $(addprefix build/clang-thread/test_,optimizer measure evaluate sample training determinism shards gradients_passes gradients_model gradients_measure)

.PHONY: all test programs bits lint race coverage fuzz fuzz-programs torture analyze bench demo demo-picture study study-quick page notebook fixtures fixtures-check install uninstall dist clean FORCE
all: train $(if $(MPI),train-mpi)

# What is made, in a word; V=1 shows the whole command, and -s neither.
brief = $(if $(filter 1,$(V)),,@$(if $(findstring s,$(firstword -$(MAKEFLAGS))),,echo '$(1)';))

# A link, made again when another compiler or sanitizer is asked for.
train: $(BUILD)/train $(BUILD)/train-double FORCE
	@[ "$$(readlink $@)" = "$<" ] || ln -sf $< $@

$(BUILD)/train: $(BUILD)/float/train.o $(FLOAT)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@
$(BUILD)/train-double: $(BUILD)/double/train.o $(DOUBLE)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@

# The program with MPI in it: one file is compiled anew. OMPI_CC and MPICH_CC make the wrapper call our compiler.
MPICC ?= mpicc
MPI_COMPILER := OMPI_CC=$(CC) MPICH_CC=$(CC) $(MPICC)
train-mpi: $(BUILD)/train-mpi FORCE
	@[ "$$(readlink $@)" = "$<" ] || ln -sf $< $@
$(BUILD)/train-mpi: $(BUILD)/float/train.o $(filter-out %/ranks/ranks.o,$(FLOAT)) $(BUILD)/mpi/ranks.o
	$(call brief,LD $@)$(MPI_COMPILER) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@
$(BUILD)/mpi/ranks.o: src/ranks/ranks.c Makefile
	@mkdir -p $(@D)
	@command -v $(MPICC) >/dev/null || { echo '$(MPICC) is missing: run ./setup.sh --mpi' >&2; exit 1; }
	$(call brief,CC $< (MPI))$(MPI_COMPILER) $(ALL_CFLAGS) -DRANKS_MPI -c $< -o $@

$(BUILD)/float/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call brief,CC $<)$(CC) $(ALL_CFLAGS) -c $< -o $@

$(BUILD)/double/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call brief,CC $< (double))$(CC) $(ALL_CFLAGS) -DREAL_DOUBLE -c $< -o $@

# The font, the built-in corpus and the report's page become part of the program.
$(BUILD)/embedded/%.o: %.S Makefile src/base/embed.inc data/sallow_reach.txt $(wildcard src/report/*.html src/report/*.css src/report/*.js)
	@mkdir -p $(@D)
	$(call brief,AS $<)$(CC) -Isrc -DFONT_PATH='"$(FONT)"' -DCORPUS_PATH='"data/sallow_reach.txt"' -c $< -o $@

$(FLOAT_TESTS:%=$(BUILD)/%): $(BUILD)/%: $(BUILD)/float/tests/%.o $(FLOAT)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) $(CMOCKA) -o $@
$(DOUBLE_TESTS:%=$(BUILD)/%): $(BUILD)/%: $(BUILD)/double/tests/%.o $(DOUBLE)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) $(CMOCKA) -o $@
$(BOTH_TESTS:%=$(BUILD)/%_double): $(BUILD)/%_double: $(BUILD)/double/tests/%.o $(DOUBLE)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) $(CMOCKA) -o $@

# This test counts products.
$(BUILD)/test_resume: ALL_LDFLAGS += -Wl,--wrap=matmul,--wrap=matmul_product

# Sweeps in these tests start the program that is built beside them.
$(addprefix $(BUILD)/,test_shares test_sweep test_sweep_resume test_why): | $(BUILD)/train

# Not a test, but what tests/report_decoder.py compares the page with.
$(BUILD)/logits: $(BUILD)/float/tests/logits.o $(FLOAT)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@

# ThreadSanitizer is told what products read and write. Pictures are drawn by one thread and would take most of the time.
ifeq ($(SANITIZER),thread)
$(RACES): $(BUILD)/float/tests/tsan_blas.o
$(BUILD)/float/src/show/%.o: ALL_CFLAGS += -fno-sanitize=thread
endif

programs: $(BUILD)/train $(BUILD)/train-double $(TEST_PROGRAMS)
test: train $(TEST_PROGRAMS)
	@tests/run.sh $(TEST_PROGRAMS)

# Every count of a line is atomic. Where products count theirs, tests take three times as long.
ifdef COVERAGE
$(BUILD)/float/src/ops/gemm.o: ALL_CFLAGS += -fno-profile-arcs -fno-test-coverage
$(BUILD)/float/src/ops/gemm.o: OPTIMISE := -O3
endif

# In `make test` a fuzz target runs its seeds; under libFuzzer, which brings main, whatever it makes of them.
LIBFUZZER := $(findstring fuzzer,$(SANITIZER))
$(FUZZERS:%=$(BUILD)/%): $(BUILD)/%: $(BUILD)/float/tests/fuzz/%.o $(if $(LIBFUZZER),,$(BUILD)/float/tests/fuzz/replay.o) $(FLOAT)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $(if $(LIBFUZZER),-fsanitize=fuzzer) $^ $(LDLIBS) -o $@
ifneq ($(LIBFUZZER),)
# No reader calls these, and clang would take minutes for their checks.
$(BUILD)/float/src/ops/%.o: ALL_CFLAGS += -fno-sanitize=all
# The distance of a mistyped key from every key, and a table of all characters: noting each comparison would take most
# of the time of an input, and says nothing of a parser.
$(addprefix $(BUILD)/float/src/,base/text.o data/vocabulary.o): ALL_CFLAGS += -fno-sanitize-coverage=trace-cmp
endif
fuzz-programs: $(FUZZERS:%=$(BUILD)/%)

# Needs clang and libclang-rt-14-dev. Each target runs for SECONDS or, with RUNS, that often; what it has found to be
# interesting stays in build/fuzz, and an input that ends it is named there: it becomes a seed, once what it shows is mended.
SECONDS := 5
FUZZ_BUILD := build/clang-fuzzer-no-link-address-undefined
fuzz:
	+$(MAKE) CC=clang SANITIZER=fuzzer-no-link,address,undefined fuzz-programs
	FUZZ_BUILD=$(FUZZ_BUILD) FUZZ_LIMIT=$(if $(RUNS),-runs=$(RUNS),-max_total_time=$(SECONDS)) tests/fuzz/fuzz.sh $(FUZZERS)

# EVERY=1 refuses the call of each place that calls come from, KILLS is how often a command is killed.
EVERY := 16
KILLS := 20
$(BUILD)/refuse.so: tests/torture/refuse.c Makefile
	@mkdir -p $(@D)
	$(call brief,CC $<)$(CC) $(LANGUAGE) $(WARNINGS) -O2 -fPIC -shared $< -o $@
torture: train $(BUILD)/refuse.so
	REFUSE_LIBRARY=$(CURDIR)/$(BUILD)/refuse.so tests/torture/torture.sh $(EVERY) $(KILLS)

# Nothing is built. gemm.c is left out: its kernels would take the analyzer too long, and hold no memory.
analyze:
	for file in train.c $(filter-out src/ops/gemm.c,$(SOURCES)); do \
		$(CC) $(LANGUAGE) -D__clang_analyzer__ -O2 -fanalyzer -fdiagnostics-path-format=none -c $$file -o /dev/null; done

# What short runs compute, by gcc 12 on x86-64, against the hashes that are kept.
bits: train
	tests/bits.sh

# Needs clang-format, clang-tidy (both 14) and shellcheck.
lint:
	clang-format --dry-run -Werror train.c src/*/*.[ch] tests/*.[ch] tests/*/*.[ch] bench/*.c
	shellcheck setup.sh share/*.sh data/*.sh tests/*.sh tests/*/*.sh configs/study/*.sh .ci/run .ci/slow
	echo train.c $(SOURCES) | tr ' ' '\n' | xargs -P "$$(getconf _NPROCESSORS_ONLN)" -I {} clang-tidy --quiet {} -- $(LANGUAGE)
	! $(PKG_CONFIG) --exists mpi || clang-tidy --quiet src/ranks/ranks.c -- $(LANGUAGE) -DRANKS_MPI $(call pkg,--cflags mpi)

# Needs PyTorch: make fixtures PYTHON=... writes the numbers tests/test_torch.c reads, fixtures-check compares them.
PYTHON ?= python3
fixtures:
	$(PYTHON) tests/fixtures/make_fixtures.py
fixtures-check:
	$(PYTHON) tests/fixtures/make_fixtures.py --check

# What runs in parallel, under ThreadSanitizer. Needs clang, libomp-dev, whose Archer tells it what OpenMP promises (gcc's
# OpenMP has nothing like it), and libclang-rt-14-dev.
race:
	$(MAKE) CC=clang SANITIZER=thread $(RACES)
	set -e; for test in $(RACES); do OMP_WAIT_POLICY=passive TSAN_OPTIONS=ignore_noninstrumented_modules=1:allocator_may_return_null=1 $$test; done

# Needs gcovr, which removes the file that it writes, even /dev/null. Processes of another user write their counts as well
# (umask); the pictures' libraries and the kernels of products are not counted.
COVERED := build/gcc-coverage
coverage:
	mkdir -p $(COVERED) && find $(COVERED) -name '*.gcda' -delete
	umask 0 && $(MAKE) CC=gcc COVERAGE=1 CFLAGS='-g -fprofile-exclude-files=/usr/include' test
	gcovr -j "$$(getconf _NPROCESSORS_ONLN)" --filter src/ --filter train.c $(COVERED) --json --output $(COVERED)/counts.json
	gcovr --add-tracefile $(COVERED)/counts.json --branches
	gcovr --add-tracefile $(COVERED)/counts.json
	gcovr --add-tracefile $(COVERED)/counts.json --filter src/ --print-summary --fail-under-line 95 --output $(COVERED)/lines.txt

# The last takes minutes and 0.9 GB.
TEXT ?= data/tinyshakespeare.txt
bench: train
	env -u OPENBLAS_CORETYPE ./train bench configs/dk64_scaled.ini
	@if [ -f "$(TEXT)" ]; then \
		for config in shakespeare_cpu shakespeare_baby; do \
			echo; env -u OPENBLAS_CORETYPE ./train bench configs/$$config.ini --set data.corpus="$(TEXT)" || exit; \
		done; \
	else echo "shakespeare_cpu and shakespeare_baby need $(TEXT): run data/get_shakespeare.sh, or say make bench TEXT=FILE"; fi

# The page of the sweep alone: without pages of its runs it links to none.
demo: train
	rm -rf build/demo
	./train sweep configs/demo.ini --out build/demo --quiet
	rm -f build/demo/*/report.html
	./train report build/demo
	cp build/demo/report.html docs/demo.html
# README's picture of that page. Needs what tests/report_page.py needs.
demo-picture:
	tests/report_page.py --picture docs/demo.html docs/images/demo_page.png

# The sweeps of docs/results.md, and its tables and pictures. Stopped and started again, they are resumed.
study: train
	configs/study/study.sh
study-quick: train
	configs/study/study.sh --quick
# The pictures need configs/study/requirements.txt: make page PYTHON=...
page:
	$(PYTHON) configs/study/page.py
	$(PYTHON) configs/study/page.py --pictures

# The blocks of docs/notebook.md, run: make notebook PYTHON=... with docs/requirements.txt.
notebook: train
	rm -rf runs/notebook
	sed -n '/^```sh$$/,/^```$$/s/^\.\/train.*/&/p' docs/notebook.md | sh
	sed -n '/^```python$$/,/^```$$/{/^```/!p}' docs/notebook.md | MPLBACKEND=agg $(PYTHON) -

# What is installed, as FILE:PLACE below PREFIX.
MANUAL := $(BUILD)/sqrtdk.1
CONFIGS := $(wildcard configs/*.ini configs/scores/*.ini configs/cluster/*.sbatch)
DOCUMENTS := LICENSE README.md CHANGELOG.md data/README.md data/LICENSE $(wildcard docs/*.md docs/demo.html docs/images/*)
INSTALLED := $(BUILD)/train:bin/sqrtdk $(BUILD)/train-double:bin/sqrtdk-double $(MANUAL):share/man/man1/sqrtdk.1 \
	share/completion.bash:share/bash-completion/completions/sqrtdk \
	$(foreach f,$(CONFIGS) data/get_shakespeare.sh,$(f):share/sqrtdk/$(f)) $(foreach f,$(DOCUMENTS),$(f):share/doc/sqrtdk/$(f))
TO = $(DESTDIR)$(PREFIX)

$(MANUAL): $(BUILD)/train share/man.sh
	@ln -sf train $(BUILD)/sqrtdk
	$(call brief,MAN $@)PATH="$(CURDIR)/$(BUILD):$$PATH" share/man.sh >$@

install: train $(MANUAL)
	@set -e; for put in $(INSTALLED); do \
		to="$(TO)/$${put#*:}"; \
		case $$put in *:bin/* | *.sh) mode=755 ;; *) mode=644 ;; esac; \
		install -d "$${to%/*}"; \
		install -m $$mode "$${put%%:*}" "$$to"; \
	done
	@echo 'installed below $(TO); try: $(TO)/bin/sqrtdk configs/dk64_scaled.ini'

# The files of the last commit, which build without git.
VERSION = $(shell sed -n 's/^\#define SQRTDK_VERSION "\(.*\)"/\1/p' src/base/results.h)
dist:
	@mkdir -p build
	git archive --prefix=sqrtdk-$(VERSION)/ -o build/sqrtdk-$(VERSION).tar.gz HEAD

# Directories that others use as well stay, and those below share/sqrtdk that hold something else.
uninstall:
	@for put in $(INSTALLED); do rm -f "$(TO)/$${put#*:}"; done
	@for folder in sqrtdk doc/sqrtdk; do \
		[ ! -d "$(TO)/share/$$folder" ] || find "$(TO)/share/$$folder" -depth -type d -exec rmdir {} \; 2>/dev/null || true; \
	done

clean:
	rm -rf build train train-mpi

FORCE:
.SECONDARY:
.DELETE_ON_ERROR:

-include $(BUILD)/mpi/ranks.d $(FLOAT:.o=.d) $(DOUBLE:.o=.d) $(TESTS:%=$(BUILD)/float/tests/%.d) $(TESTS:%=$(BUILD)/double/tests/%.d) $(FUZZERS:%=$(BUILD)/float/tests/fuzz/%.d) $(BUILD)/float/train.d $(BUILD)/double/train.d
