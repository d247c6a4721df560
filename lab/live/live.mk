# Included by the Makefile: the trainer as a WebAssembly module, and the page that trains with it. Needs clang, lld and
# wasi-libc (./setup.sh --live). Instructions are those of SIMD128 alone, without the relaxed ones, and the mathematics of
# libc is compiled in. So the module gives the same bits on every machine.
.PHONY: live live-picture
LIVE_CC := clang --target=wasm32-wasi
LIVE_CFLAGS := -O3 -msimd128 -std=gnu11 -D_GNU_SOURCE -Ilab/live/wasm -Isrc -I. $(WARNINGS) -Wno-unused-parameter
LIVE_SOURCES := $(filter-out src/gemm/openblas.c,$(wildcard lab/live/*.c lab/live/wasm/*.c src/config/*.c src/data/*.c src/gemm/*.c src/model/*.c src/ops/*.c \
	src/plain/*.c)) src/ranks/shards.c src/ranks/ranks.c src/show/progress.c \
	$(patsubst %,src/base/%.c,command error files memory results rng safetensors statistics text) \
	$(patsubst %,src/run/%.c,checkpoint logs picture_text run snapshot) \
	$(patsubst %,src/train/%.c,engine evaluate optimizer record sample summary trainer) $(patsubst %,lab/why/%.c,command run sweep) \
	lab/sweep/results.c lab/statistics.c lab/text.c
LIVE_OBJECTS := $(LIVE_SOURCES:%.c=build/live/%.o)
LIVE_CALLS := $(shell grep -oE "live_[a-z]+" lab/live/live.h | sort -u) live_begin live_error malloc free __stack_pointer

build/live/%.o: %.c Makefile lab/live/live.mk
	@mkdir -p $(@D)
	$(call brief,CC $< (WebAssembly))$(LIVE_CC) $(LIVE_CFLAGS) -D_WASI_EMULATED_SIGNAL -DEXP_LEAST=-60.0f -MMD -MP -c $< -o $@
build/live/sqrtdk.wasm: $(LIVE_OBJECTS)
	$(call brief,LD $@)$(LIVE_CC) -mexec-model=reactor -Wl,--gc-sections,--strip-all,--allow-undefined,-z,stack-size=1048576 \
		$(LIVE_CALLS:%=-Wl,--export=%) $^ -lm -o $@
-include $(LIVE_OBJECTS:.o=.d)

# The page of the sweep alone: without pages of its runs it links to none.
build/demo/report.html: $(BUILD)/train configs/demo.ini
	rm -rf build/demo
	$(BUILD)/train sweep configs/demo.ini --out build/demo --quiet
	rm -f build/demo/*/report.html
	$(BUILD)/train report build/demo
live: build/live/sqrtdk.wasm build/demo/report.html
	lab/live/page.py build/demo/report.html build/live/sqrtdk.wasm docs/live.html
# The picture of that page in lab/docs/live.md. Needs what lab/tests/report_page.py needs.
live-picture:
	lab/tests/live_page.py --picture lab/docs/images/live_page.png
