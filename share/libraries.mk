# Included by the Makefile: where the libraries, the font and stb are on this system.

# Debian ranks the pthread build of OpenBLAS above the OpenMP one; ask for the latter by its own folder. Homebrew keeps
# it out of pkg-config's path.
OPENBLAS_OPENMP := $(firstword $(wildcard /usr/lib/*/openblas-openmp/pkgconfig $(HOMEBREW)/opt/openblas/lib/pkgconfig))
pkg = $(shell PKG_CONFIG_PATH=$(OPENBLAS_OPENMP):$$PKG_CONFIG_PATH $(PKG_CONFIG) $(1) 2>/dev/null)
LIBRARIES := openblas jansson
# OpenBLAS is loaded by this name when it is first needed. Sanitizers and tests that replace its functions link it.
OPENBLAS := $(if $(HOMEBREW),$(HOMEBREW)/opt/openblas/lib/libopenblas.dylib,libopenblas.so.0)
LINK_OPENBLAS := -rdynamic $(call pkg,--libs openblas)
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
