# Included by the Makefile: builds with run-time checks, and the checks beyond `make test`.
.PHONY: bits lint fixtures fixtures-check race coverage fuzz fuzz-programs torture analyze

# A line is counted by one instruction in memory, which threads that share a processor cannot interrupt; atomic counters
# would take five times as long. (Where loops keep a count in a register, threads would overwrite each other's.)
ifdef COVERAGE
ALL_CFLAGS += -fprofile-arcs -ftest-coverage -fprofile-update=single -fno-tree-loop-im -DSANITIZED
ALL_LDFLAGS += --coverage
OPTIMISE := -O1
endif
ifdef SANITIZER
ALL_CFLAGS += -fsanitize=$(SANITIZER) -fno-sanitize-recover=all -fno-omit-frame-pointer -DSANITIZED
ALL_LDFLAGS += -fsanitize=$(SANITIZER)
LDLIBS += $(LINK_OPENBLAS)
OPTIMISE := -O2
endif

# What short runs compute, by gcc 12 on x86-64, against the hashes that are kept.
bits: train
	tests/bits.sh

# Needs clang-format, clang-tidy (both 14) and shellcheck.
lint:
	clang-format --dry-run -Werror train.c src/*/*.[ch] lab/*.[ch] lab/*/*.[ch] lab/*/*/*.[ch] tests/*.[ch] tests/*/*.[ch]
	shellcheck setup.sh share/*sh data/*.sh tests/*.sh tests/*/*.sh lab/*/*.sh .ci/run .ci/slow
	echo train.c $(SOURCES) | tr ' ' '\n' | xargs -P "$$(getconf _NPROCESSORS_ONLN)" -I {} clang-tidy --quiet {} -- $(LANGUAGE) -I.
	! $(PKG_CONFIG) --exists mpi || clang-tidy --quiet src/ranks/ranks.c -- $(LANGUAGE) -DRANKS_MPI $(call pkg,--cflags mpi)

# This test counts OpenBLAS's products.
$(BUILD)/test_gemm: LDLIBS += $(LINK_OPENBLAS)

# Not a test, but what lab/tests/report_decoder.py compares the page with.
$(BUILD)/logits: $(BUILD)/float/lab/tests/logits.o $(FLOAT)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@

# Needs PyTorch: make fixtures PYTHON=... writes the numbers tests/test_torch.c reads, fixtures-check compares them.
PYTHON ?= python3
fixtures:
	$(PYTHON) tests/fixtures/make_fixtures.py
fixtures-check:
	$(PYTHON) tests/fixtures/make_fixtures.py --check

RACES := $(addprefix build/clang-thread/test_,optimizer measure evaluate sample training determinism shards gradients)

# ThreadSanitizer is told what products read and write. Pictures are drawn by one thread and would take most of the time.
ifeq ($(SANITIZER),thread)
$(RACES): $(BUILD)/float/tests/tsan_blas.o
$(BUILD)/float/src/show/%.o: ALL_CFLAGS += -fno-sanitize=thread
endif

# What runs in parallel, under ThreadSanitizer. Needs clang, libomp-dev, whose Archer tells it what OpenMP promises (gcc's
# OpenMP has nothing like it), and libclang-rt-14-dev.
race:
	$(MAKE) CC=clang SANITIZER=thread $(RACES)
	set -e; for test in $(RACES); do OMP_WAIT_POLICY=passive TSAN_OPTIONS=ignore_noninstrumented_modules=1:allocator_may_return_null=1 $$test; done

# Where products count their lines, tests take three times as long.
ifdef COVERAGE
$(BUILD)/float/src/gemm/gemm.o: ALL_CFLAGS += -fno-profile-arcs -fno-test-coverage
$(BUILD)/float/src/gemm/gemm.o: OPTIMISE := -O3
endif

# Needs gcovr, which removes the file that it writes, even /dev/null. Processes of another user write their counts as well
# (umask); the pictures' libraries and the kernels of products are not counted.
COVERED := build/gcc-coverage
coverage:
	mkdir -p $(COVERED) && find $(COVERED) -name '*.gcda' -delete
	umask 0 && $(MAKE) CC=gcc COVERAGE=1 PINNED=yes CFLAGS='-g -fprofile-exclude-files=/usr/include' test
	gcovr --filter src/ --filter lab/ --filter train.c $(COVERED) --json --output $(COVERED)/counts.json
	gcovr --add-tracefile $(COVERED)/counts.json --branches
	gcovr --add-tracefile $(COVERED)/counts.json
	gcovr --add-tracefile $(COVERED)/counts.json --filter src/ --filter lab/ --print-summary --fail-under-line 95 --output $(COVERED)/lines.txt

# In `make test` a fuzz target runs its seeds; under libFuzzer, which brings main, whatever it makes of them.
LIBFUZZER := $(findstring fuzzer,$(SANITIZER))
fuzzer_of = $(BUILD)/float/$(basename $(filter %/$(1).c,$(FUZZ_FILES))).o
$(FUZZERS:%=$(BUILD)/%): $(BUILD)/%: $$(call fuzzer_of,%) $(if $(LIBFUZZER),,$(BUILD)/float/tests/fuzz/replay.o) $(FLOAT)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $(if $(LIBFUZZER),-fsanitize=fuzzer) $^ $(LDLIBS) -o $@
ifneq ($(LIBFUZZER),)
# No reader calls these, and clang would take minutes for their checks.
$(BUILD)/float/src/gemm/%.o $(BUILD)/float/src/ops/%.o: ALL_CFLAGS += -fno-sanitize=all
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
$(BUILD)/refuse.so: tests/torture/refuse.c Makefile $(BUILD)/flags
	@mkdir -p $(@D)
	$(call brief,CC $<)$(CC) $(LANGUAGE) $(WARNINGS) -O2 -fPIC -shared $< -o $@
torture: train $(BUILD)/refuse.so
	REFUSE_LIBRARY="$$PWD/$(BUILD)/refuse.so" tests/torture/torture.sh $(EVERY) $(KILLS)

# Nothing is built. gemm.c is left out: its kernels would take the analyzer too long, and hold no memory.
analyze:
	for file in train.c $(filter-out src/gemm/gemm.c,$(SOURCES)); do \
		$(CC) $(LANGUAGE) -I. -D__clang_analyzer__ -O2 -fanalyzer -fdiagnostics-path-format=none -c $$file -o /dev/null; done
