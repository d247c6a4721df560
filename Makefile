# make                builds ./train, and train-double beside it, in which gradients are checked
# make trainer        builds ./train from train.c and src/ alone: train, resume, eval and sample, without the verbs of lab/
# make check          a little of each claim of docs/testing.md, in half a minute
# make test           builds and runs every test;  make lint  checks format and scripts, and analyses the code
# make coverage       the tests' coverage of src/;  make fixtures  PyTorch's numbers again (see docs/testing.md)
# make race           what runs in parallel, under ThreadSanitizer;  make bits  whether training computes what it did
# make study          the experiments of lab/docs/results.md, seven hours;  make study-quick  their main comparison
# make page           the tables and pictures of lab/docs/results.md again, from lab/docs/results (needs matplotlib)
# make notebook       runs lab/docs/notebook.ipynb (needs lab/docs/requirements.txt)
# make live           docs/live.html again, the page that trains (./setup.sh --live);  make live-picture  its picture in lab/docs/live.md
# make fuzz SECONDS=5 each parser of a file under libFuzzer that long (needs clang);  make torture  failing calls and kills
# make analyze        what gcc's -fanalyzer remarks (minutes; see docs/reliability.md)
# make bench          how fast the standard configs train here, and where the time goes (see docs/performance.md)
# make CPU=avx2 [bits]           without instructions above AVX2, which most laptops lack: what they run, on any machine
# make SANITIZER=address,undefined [test]     the same with run-time checks
# make install PREFIX=/usr/local DESTDIR=     make uninstall     make dist     make clean
# make V=1            any of these with whole commands
# make MPI=1          builds train-mpi as well, one run by several processes (./setup.sh --mpi; docs/cluster.md)
# CC=clang or CC="ccache gcc" works as well; each compiler and each set of checks has its own folder below build/. With other
# flags or another font all of it is built again. make install puts in place what was built.

# On a Mac gcc is clang without OpenMP, and Homebrew's compiler has its version in its name.
HOMEBREW := $(if $(filter Darwin,$(shell uname)),$(firstword $(wildcard /opt/homebrew /usr/local)))
GCC := $(or $(notdir $(lastword $(if $(HOMEBREW),$(sort $(wildcard $(HOMEBREW)/bin/gcc-[0-9]*))))),gcc)
CC := $(if $(filter default,$(origin CC)),$(GCC),$(CC))
PREFIX ?= /usr/local
PKG_CONFIG ?= pkg-config
include share/libraries.mk

comma := ,
# A word of the shell, whatever is in it.
quoted = '$(subst ','\'',$(1))'
# The constants of an enum without a name are whole numbers here, and may meet doubles; clang 22 would warn.
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wno-enum-float-conversion
OPTIMISE := -O3 -fno-math-errno -fno-trapping-math
CFLAGS ?= -g
# Against what a mistake in memory could be used for; tests/test_hardening.sh reads it from the program. Sanitizers bring
# checks of their own. Before gcc 12 the C library warns of a _FORTIFY_SOURCE above 2.
FORTIFY := $(if $(filter 4 5 6 7 8 9 10 11,$(firstword $(subst ., ,$(shell $(CC) -dumpversion)))),2,3)
HARDENING := $(if $(SANITIZER)$(COVERAGE),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$(FORTIFY)) -fstack-protector-strong
HARDENING_LDFLAGS := $(if $(HOMEBREW),,-Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now)
LANGUAGE := -std=gnu11 -D_GNU_SOURCE -DOPENBLAS='"$(OPENBLAS)"' -fopenmp -Isrc \
	-isystem $(patsubst -I%,%,$(firstword $(STB))) $(patsubst -I%,-isystem %,$(foreach l,$(LIBRARIES) cmocka,$(call pkg,--cflags-only-I $(l))))
$(if $(filter-out avx2,$(CPU)),$(error CPU=$(CPU): only avx2 is known))
ALL_CFLAGS = $(LANGUAGE) $(CPU:avx2=-DAVX2_ALONE) $(WARNINGS) $(OPTIMISE) $(HARDENING) $(CFLAGS) -MMD -MP
ALL_LDFLAGS = -fopenmp $(HARDENING_LDFLAGS) $(LDFLAGS)
LDLIBS := $(call pkg,--libs jansson) -Wl,-rpath,$(patsubst %/,%,$(call pkg,--variable=libdir openblas)) -lm -ldl
CMOCKA := $(or $(call pkg,--libs cmocka),-lcmocka)
BUILD := build/$(notdir $(lastword $(filter-out -%,$(CC))))$(if $(SANITIZER),-$(subst $(comma),-,$(SANITIZER)))$(if $(COVERAGE),-coverage)$(CPU:%=-%)
# The trainer is train.c and src/; lab/ stands on it, and can be left out. lab/bench has programs of their own.
TRAINER := $(wildcard src/*/*.c src/*/*.S)
LAB := $(filter-out lab/bench/% lab/tests/%,$(wildcard lab/*.c lab/*/*.c lab/*/*.S))
SOURCES := $(filter %.c,$(TRAINER) $(LAB))
objects = $(patsubst %.c,$(BUILD)/$(1)/%.o,$(filter %.c,$(2))) $(patsubst %.S,$(BUILD)/embedded/%.o,$(filter %.S,$(2)))
FLOAT := $(call objects,float,$(TRAINER) $(LAB))
DOUBLE := $(call objects,double,$(TRAINER) $(LAB))

# Gradients are compared with differences in double precision, those of PyTorch, plain and theory in both; everything
# else is tested as it runs.
TEST_FILES := $(wildcard tests/test_*.c lab/tests/test_*.c)
TESTS := $(basename $(notdir $(TEST_FILES)))
# Not on a Mac: functions of these tests stand in for system calls, and make those of Linux.
TESTS := $(filter-out $(if $(HOMEBREW),test_checkpoint_faults test_failures test_commands test_lock test_resume),$(TESTS))
DOUBLE_TESTS := $(filter test_gradients test_ops,$(TESTS))
FLOAT_TESTS := $(filter-out $(DOUBLE_TESTS),$(TESTS))
BOTH_TESTS := $(filter test_torch test_plain test_theory,$(TESTS))
FUZZ_FILES := $(wildcard tests/fuzz/fuzz_*.c lab/tests/fuzz/fuzz_*.c)
FUZZERS := $(basename $(notdir $(FUZZ_FILES)))
TEST_PROGRAMS := $(TESTS:%=$(BUILD)/%) $(BOTH_TESTS:%=$(BUILD)/%_double) $(FUZZERS:%=$(BUILD)/%)

.PHONY: all trainer programs check test install uninstall dist clean FORCE
all: train $(if $(MPI),train-mpi)

# What is made, in a word; V=1 shows the whole command, and -s neither.
brief = $(if $(filter 1,$(V)),,@$(if $(findstring s,$(firstword -$(MAKEFLAGS))),,echo '$(1)';))

# Programs in the root are links, made again when another compiler or sanitizer is asked for. Where the file system has no
# links they are copies, and gradcheck finds train-double beside train there.
train: $(BUILD)/train $(BUILD)/train-double FORCE
	@[ "$$(readlink $@)" = "$<" ] || ln -sf $< $@ 2>/dev/null || cp -f $(BUILD)/train $(BUILD)/train-double .
trainer: $(BUILD)/trainer
	@ln -sf $< train 2>/dev/null || cp -f $< train

# train.c has the verbs of lab/ where the compiler finds lab/lab.h.
$(BUILD)/float/train.o $(BUILD)/double/train.o: LANGUAGE += -I.
$(BUILD)/float/lab/%.o $(BUILD)/double/lab/%.o $(BUILD)/float/tests/%.o $(BUILD)/double/tests/%.o: LANGUAGE += -I. -Itests -Itests/fuzz
$(BUILD)/trainer: $(BUILD)/alone/train.o $(call objects,float,$(TRAINER))
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@
$(BUILD)/alone/train.o: train.c Makefile $(BUILD)/flags
	@mkdir -p $(@D)
	$(call brief,CC $< (the trainer alone))$(CC) $(ALL_CFLAGS) -c $< -o $@

$(BUILD)/train: $(BUILD)/float/train.o $(FLOAT)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@
$(BUILD)/train-double: $(BUILD)/double/train.o $(DOUBLE)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@

# The program with MPI in it: one file is compiled anew. OMPI_CC and MPICH_CC make the wrapper call our compiler.
MPICC ?= mpicc
MPI_COMPILER := OMPI_CC=$(call quoted,$(CC)) MPICH_CC=$(call quoted,$(CC)) $(MPICC)
train-mpi: $(BUILD)/train-mpi FORCE
	@[ "$$(readlink $@)" = "$<" ] || ln -sf $< $@ 2>/dev/null || cp -f $< $@
$(BUILD)/train-mpi: $(BUILD)/float/train.o $(filter-out %/ranks/ranks.o,$(FLOAT)) $(BUILD)/mpi/ranks.o
	$(call brief,LD $@)$(MPI_COMPILER) $(ALL_LDFLAGS) $^ $(LDLIBS) -o $@
$(BUILD)/mpi/ranks.o: src/ranks/ranks.c Makefile $(BUILD)/flags $(BUILD)/mpi/flags
	@mkdir -p $(@D)
	@command -v $(MPICC) >/dev/null || { echo '$(MPICC) is missing: run ./setup.sh --mpi' >&2; exit 1; }
	$(call brief,CC $< (MPI))$(MPI_COMPILER) $(ALL_CFLAGS) -DRANKS_MPI -c $< -o $@

$(BUILD)/float/%.o: %.c Makefile $(BUILD)/flags
	@mkdir -p $(@D)
	$(call brief,CC $<)$(CC) $(ALL_CFLAGS) -c $< -o $@

$(BUILD)/double/%.o: %.c Makefile $(BUILD)/flags
	@mkdir -p $(@D)
	$(call brief,CC $< (double))$(CC) $(ALL_CFLAGS) -DREAL_DOUBLE -c $< -o $@

# The font, the built-in corpus and the lab's page become part of the program.
$(BUILD)/embedded/%.o: %.S Makefile $(BUILD)/embedded/font.ttf src/base/embed.inc data/sallow_reach.txt $(wildcard lab/report/*.html lab/report/*.css lab/report/*.js)
	@mkdir -p $(@D)
	$(call brief,AS $<)$(CC) -Isrc -DFONT_PATH='"$(BUILD)/embedded/font.ttf"' -DCORPUS_PATH='"data/sallow_reach.txt"' -c $< -o $@
$(BUILD)/embedded/font.ttf: $(BUILD)/flags
	@mkdir -p $(@D)
	@cat <$(call quoted,$(FONT)) >$@

.SECONDEXPANSION:
object_of = $(BUILD)/$(1)/$(basename $(filter %/$(2).c,$(TEST_FILES))).o
$(FLOAT_TESTS:%=$(BUILD)/%): $(BUILD)/%: $$(call object_of,float,%) $(FLOAT)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) $(CMOCKA) -o $@
$(DOUBLE_TESTS:%=$(BUILD)/%): $(BUILD)/%: $$(call object_of,double,%) $(DOUBLE)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) $(CMOCKA) -o $@
$(BOTH_TESTS:%=$(BUILD)/%_double): $(BUILD)/%_double: $$(call object_of,double,%) $(DOUBLE)
	$(call brief,LD $@)$(CC) $(ALL_LDFLAGS) $^ $(LDLIBS) $(CMOCKA) -o $@

# This test counts products.
$(BUILD)/test_resume: ALL_LDFLAGS += -Wl,--wrap=matmul_product

# Sweeps in these tests start the program that is built beside them.
$(addprefix $(BUILD)/,test_commands test_sweep test_sweep_resume test_why): | $(BUILD)/train

# It builds only what it needs.
QUICK := $(addprefix $(BUILD)/,test_plain test_plain_double test_torch test_torch_double)
check: train $(QUICK)
	@tests/quick.sh $(QUICK)

programs: $(BUILD)/train $(BUILD)/train-double $(TEST_PROGRAMS)
test: train $(TEST_PROGRAMS)
	@tests/run.sh $(TEST_PROGRAMS)

include tests/checks.mk $(wildcard lab/*/*.mk)

$(if $(filter ~ ~/%,$(PREFIX) $(DESTDIR)),$(error the shell has not replaced the ~ of $(DESTDIR)$(PREFIX): write $(HOME)))
# What objects are compiled and programs linked with. A file of words is written anew when they are others, but not by make
# install, nor with SAME_FLAGS=yes.
FLAGS := $(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LDLIBS) $(FONT)
$(BUILD)/flags: WORDS := $(FLAGS)
$(BUILD)/mpi/flags: WORDS := $(MPI_COMPILER)
$(BUILD)/flags: $(if $(filter install,$(MAKECMDGOALS))$(SAME_FLAGS),,FORCE)
$(BUILD)/mpi/flags: FORCE
$(BUILD)/flags $(BUILD)/mpi/flags:
	@mkdir -p $(@D)
	@echo $(call quoted,$(WORDS)) | cmp -s - $@ || echo $(call quoted,$(WORDS)) >$@

MANUAL := $(BUILD)/sqrtdk.1
TO = $(call quoted,$(DESTDIR)$(PREFIX))
$(MANUAL): $(BUILD)/train share/man.sh
	@cp -f $< $(BUILD)/sqrtdk
	$(call brief,MAN $@)PATH="$$PWD/$(BUILD):$$PATH" share/man.sh >$@

install: train $(MANUAL)
	@share/install.sh install $(BUILD) $(TO)
	@printf 'installed below %s; try: %s/bin/sqrtdk configs/dk64_scaled.ini\n' $(TO) $(TO)
uninstall:
	@share/install.sh uninstall $(BUILD) $(TO)

# The files of the last commit, which build without git.
VERSION = $(shell sed -n 's/^\#define SQRTDK_VERSION "\(.*\)"/\1/p' src/base/results.h)
dist:
	@mkdir -p build
	git archive --prefix=sqrtdk-$(VERSION)/ -o build/sqrtdk-$(VERSION).tar.gz HEAD

clean:
	rm -rf build train train-double train-mpi

FORCE:
.SECONDARY:
.DELETE_ON_ERROR:

-include $(BUILD)/mpi/ranks.d $(BUILD)/alone/train.d $(patsubst %.c,$(BUILD)/float/%.d,$(SOURCES) $(TEST_FILES) $(FUZZ_FILES) train.c) \
	$(patsubst %.c,$(BUILD)/double/%.d,$(SOURCES) $(TEST_FILES) train.c)
