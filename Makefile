# deformd. `make demo` and `make check` install what is missing and do everything; see README.md.
#
#   make [config=release|debug|asan|tsan|coverage] [target]
#
# Everything that is built lies in build/<config>/. Sources are found by folder: kernels, core, api
# and server are one library each, and link in that order of dependence.
# V=1 shows the commands.
.SUFFIXES:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

config ?= release
VERSION := $(shell sed -n 's/^## \[\([0-9.]*\)\].*/\1/p' CHANGELOG.md | head -n 1)
BUILD := build/$(config)
CC := gcc
JOBS ?= $(shell nproc)
CLANG ?= clang

DEBIAN_PACKAGES := gcc make pkg-config libc6-dev libmicrohttpd-dev libcjson-dev ocl-icd-opencl-dev \
	opencl-headers pocl-opencl-icd libcurl4-openssl-dev check nettle-dev zlib1g-dev curl jq yq procps
LIBRARIES := libmicrohttpd libcjson OpenCL nettle zlib
TEST_LIBRARIES := check libcurl

# Asked once, when first used: the packages may come only with `make deps`.
pkg_config = $(eval $(1) := $$(shell pkg-config $(2)))$($(1))
PKG_CFLAGS = $(call pkg_config,PKG_CFLAGS,--cflags $(LIBRARIES))
PKG_LIBS = $(call pkg_config,PKG_LIBS,--libs $(LIBRARIES))
TEST_CFLAGS = $(call pkg_config,TEST_CFLAGS,--cflags $(TEST_LIBRARIES))
TEST_LIBS = $(call pkg_config,TEST_LIBS,--libs $(TEST_LIBRARIES))

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
STRICT_WARNINGS := -Wconversion
ifeq ($(CI),true)
WARNINGS += -Werror
endif
CFLAGS := -std=c11 -D_GNU_SOURCE -I. -I$(BUILD)/gen -g -fPIE -fno-math-errno -fno-trapping-math \
	-ffp-contract=off -DCL_TARGET_OPENCL_VERSION=120 $(WARNINGS)
LDFLAGS := -pie -pthread
HARDENING := -fstack-protector-strong -D_FORTIFY_SOURCE=2
ifeq ($(config),release)
CFLAGS += -O2 $(HARDENING)
LDFLAGS += -Wl,-z,relro,-z,now
else ifeq ($(config),debug)
CFLAGS += -O0
else ifeq ($(config),asan)
CFLAGS += -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
# The OpenCL driver's own leaks; and gcc 12's guess at the size of a dlopened library's thread-local
# block, which ends the leak check of a process that uses the driver ("Tracer caught signal 11").
export LSAN_OPTIONS := suppressions=$(CURDIR)/tests/data/lsan.supp:print_suppressions=0:$(LSAN_OPTIONS)
export ASAN_OPTIONS := intercept_tls_get_addr=0:$(ASAN_OPTIONS)
else ifeq ($(config),tsan)
CFLAGS += -O1 -fsanitize=thread
LDFLAGS += -fsanitize=thread
else ifeq ($(config),coverage)
CFLAGS += -O0 --coverage -fprofile-update=atomic
LDFLAGS += --coverage
else ifeq ($(config),fuzz)
CC := $(CLANG)
CFLAGS += -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
LDFLAGS += -fsanitize=address,undefined
else
$(error config=$(config): one of release, debug, asan, tsan, coverage, fuzz)
endif
# Check kills a test after some seconds; a busy machine, or a sanitizer, takes longer.
export CK_TIMEOUT_MULTIPLIER := $(if $(filter asan tsan,$(config)),15,5)

say = $(if $(V),,@printf '  %-5s %s\n' $(1) $@;)

LAYERS := kernels core api server
sources_of = $(sort $(wildcard $(1)/*.c $(1)/*/*.c))
objects_of = $(patsubst %.c,$(BUILD)/%.o,$(call sources_of,$(1)))
LIBS := $(foreach layer,server api core kernels,$(BUILD)/lib$(layer).a)
GENERATED := $(BUILD)/gen/skin_cl.o $(BUILD)/gen/openapi.o
MAIN := $(BUILD)/server/main.o

.PHONY: all demo check fuzz bench format format-check lint install deps clean
all: $(BUILD)/deformd $(BUILD)/make-model

# --- what lies in build/ ---------------------------------------------------------------------
define layer_rules
$(BUILD)/lib$(1).a: $$(filter-out $(MAIN),$$(call objects_of,$(1)))
	@rm -f $$@
	$$(call say,AR) ar rcs $$@ $$^
endef
$(foreach layer,$(LAYERS),$(eval $(call layer_rules,$(layer))))

$(BUILD)/kernels/%.o $(BUILD)/core/%.o: CFLAGS += $(STRICT_WARNINGS)
# The inner loops are optimised in every build but the coverage one; each variant gets its own
# instruction set here, so that a plain make on any machine gives the fast binary.
ifneq ($(config),coverage)
$(BUILD)/kernels/%.o: CFLAGS += -O3
endif
$(BUILD)/kernels/skin_avx2.o: CFLAGS += -ffp-contract=fast
$(BUILD)/kernels/skin_neon.o: CFLAGS += -ffp-contract=fast
ifeq ($(shell uname -m),x86_64)
$(BUILD)/kernels/skin_avx2.o: CFLAGS += -mavx2 -mfma -mf16c
endif
$(BUILD)/server/%.o: CFLAGS += -DDFM_VERSION='"$(VERSION)"' -DDFM_CONFIG='"$(config)"'
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC) $(CC) $(CFLAGS) $(PKG_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c
	$(call say,CC) $(CC) $(CFLAGS) -c $< -o $@

# A text file as a C string; skin.cl takes its one include in, since OpenCL finds no headers.
embed = { echo 'extern const char $(1)[]; const char $(1)[] ='; \
	sed 's/\\/\\\\/g; s/"/\\"/g; s/^/"/; s/$$/\\n"/'; echo ';'; } >$@
$(BUILD)/gen/skin_cl.c: kernels/skin.cl kernels/skin_layout.h
	@mkdir -p $(@D)
	$(call say,GEN) sed -e '/^#include "kernels\/skin_layout.h"/{r kernels/skin_layout.h' -e 'd}' kernels/skin.cl | $(call embed,dfm_skin_cl)
$(BUILD)/gen/openapi.c: openapi.yaml
	@mkdir -p $(@D)
	$(call say,GEN) cat openapi.yaml | $(call embed,dfm_openapi_yaml)

# What tests/e2e/test_contract.c reads.
$(BUILD)/gen/openapi.json: openapi.yaml
	@mkdir -p $(@D)
	$(call say,GEN) yq . $< >$@

$(BUILD)/deformd: $(MAIN) $(LIBS) $(GENERATED)
	$(call say,LINK) $(CC) $(LDFLAGS) $^ $(PKG_LIBS) -lm -o $@

# The generator of test and sample models (tests/data/README.md).
$(BUILD)/make-model: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/data/*.c)) $(BUILD)/libcore.a $(BUILD)/libkernels.a $(BUILD)/gen/skin_cl.o
	$(call say,LINK) $(CC) $(LDFLAGS) $^ $(PKG_LIBS) -lm -o $@

# --- tests -----------------------------------------------------------------------------------
# tests/<layer>/test_*.c is a program each; tests/*/support*.c, tests/data/*.c and
# tests/reference/*.c are linked into all of them.
TEST_SOURCES := $(sort $(wildcard tests/kernels/test_*.c tests/core/test_*.c tests/api/test_*.c tests/server/test_*.c))
TEST_SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(sort $(filter-out tests/data/make_model.c,$(wildcard tests/data/*.c)) $(wildcard tests/support*.c tests/reference/*.c)))
TESTS := $(patsubst %.c,$(BUILD)/%,$(TEST_SOURCES))
E2E_SOURCES := $(sort $(wildcard tests/e2e/test_*.c))
E2E_SUPPORT := $(patsubst %.c,$(BUILD)/%.o,$(sort $(wildcard tests/e2e/support*.c)))
E2E_TESTS := $(patsubst %.c,$(BUILD)/%,$(E2E_SOURCES))

$(BUILD)/tests/%.o: CFLAGS += $(TEST_CFLAGS)
# Programs that count allocations and make them fail (tests/wrap_allocator.h).
$(filter %_memory,$(TESTS)): LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=free,--wrap=open_memstream,--wrap=dfm_arena_alloc,--wrap=dfm_arena_alloc_text
$(filter %/test_store_folder,$(TESTS)): LDFLAGS += -Wl,--wrap=fsync,--wrap=write,--wrap=renameat,--wrap=mkdirat,--wrap=unlinkat,--wrap=openat,--wrap=fcntl
$(TESTS): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_SUPPORT) $(LIBS) $(GENERATED)
	$(call say,LINK) $(CC) $(LDFLAGS) $^ $(PKG_LIBS) $(TEST_LIBS) -lm -o $@
$(E2E_TESTS): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(E2E_SUPPORT) $(TEST_SUPPORT) $(LIBS) $(GENERATED)
	$(call say,LINK) $(CC) $(LDFLAGS) $^ $(PKG_LIBS) $(TEST_LIBS) -lm -o $@
.SECONDARY:

# `make soak [SECONDS=30] [CONNECTIONS=64] [config=tsan]`: load on a real daemon, with figures, and the
# long forms of tests that `make check` runs for a moment. Some five minutes.
SECONDS ?= 30
CONNECTIONS ?= 64
LOAD := $(BUILD)/tests/bench/load
$(LOAD): $(BUILD)/tests/bench/load.o $(E2E_SUPPORT) $(TEST_SUPPORT) $(LIBS) $(GENERATED)
	$(call say,LINK) $(CC) $(LDFLAGS) $^ $(PKG_LIBS) $(TEST_LIBS) -lm -o $@
.PHONY: soak
soak: $(LOAD) $(addprefix $(BUILD)/tests/,e2e/test_soak server/test_store_folder e2e/test_store) $(BUILD)/deformd
	DEFORMD=$(BUILD)/deformd $(LOAD) -c $(CONNECTIONS) -s $(SECONDS)
	SOAK=1 DEFORMD=$(BUILD)/deformd $(BUILD)/tests/e2e/test_soak
	SOAK_KILLS=200 $(BUILD)/tests/server/test_store_folder
	SOAK_KILLS=200 DEFORMD=$(BUILD)/deformd $(BUILD)/tests/e2e/test_store

# `make farm-test`: what docker/ shows: its manifests, and three daemons over one store behind HAProxy.
FARM_TEST := $(BUILD)/tests/fleet/test_farm
$(FARM_TEST): $(BUILD)/tests/fleet/test_farm.o $(E2E_SUPPORT) $(TEST_SUPPORT) $(LIBS) $(GENERATED)
	$(call say,LINK) $(CC) $(LDFLAGS) $^ $(PKG_LIBS) $(TEST_LIBS) -lm -o $@
.PHONY: farm-test farm-run
farm-test: deps
	@tests/deps.sh haproxy
	@$(MAKE) --no-print-directory -j$(JOBS) farm-run
farm-run: $(FARM_TEST) $(BUILD)/deformd
	tests/fleet/manifests.sh $(BUILD)/deformd
	DEFORMD=$(BUILD)/deformd $(FARM_TEST)

# `make image-test`: the images of docker/Dockerfile without a Docker engine; as root.
.PHONY: image-test
image-test: deps
	@tests/deps.sh buildah debootstrap curl procps
	tests/fleet/image.sh

# `make stream-soak [STREAM_FRAMES=6500]`: one long streamed result, 1.2 MB a frame, with figures.
STREAM_FRAMES ?= 6500
.PHONY: stream-soak
stream-soak: $(BUILD)/tests/e2e/test_stream $(BUILD)/deformd
	DEFORMD=$(BUILD)/deformd STREAM_FRAMES=$(STREAM_FRAMES) CK_RUN_CASE=memory $(BUILD)/tests/e2e/test_stream

# --- fuzzers ---------------------------------------------------------------------------------
# tests/fuzz/fuzz_<what>.c is a libFuzzer target; tests/fuzz/cases/<what>/ holds its saved cases,
# which `make check` replays through the same code without libFuzzer (replay.c).
FUZZ_SECONDS ?= 20
FUZZ_PACKAGES := clang libclang-rt-14-dev
FUZZ_SOURCES := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(FUZZ_SOURCES))
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(FUZZ_SOURCES))
REPLAYS := $(patsubst tests/fuzz/fuzz_%.c,$(BUILD)/tests/fuzz/replay_%,$(FUZZ_SOURCES))

$(FUZZERS): $(BUILD)/%: $(BUILD)/%.o $(TEST_SUPPORT) $(LIBS) $(GENERATED)
	$(call say,LINK) $(CC) $(LDFLAGS) -fsanitize=fuzzer $^ $(PKG_LIBS) $(TEST_LIBS) -lm -o $@
$(REPLAYS): $(BUILD)/tests/fuzz/replay_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(TEST_SUPPORT) $(LIBS) $(GENERATED)
	$(call say,LINK) $(CC) $(LDFLAGS) $^ $(PKG_LIBS) $(TEST_LIBS) -lm -o $@

.PHONY: fuzz fuzz-run
fuzz:
	@tests/deps.sh $(DEBIAN_PACKAGES) $(FUZZ_PACKAGES)
	@$(MAKE) --no-print-directory config=fuzz fuzz-run
fuzz-run: $(FUZZERS)
	for name in $(FUZZ_NAMES); do \
		mkdir -p $(BUILD)/corpus/$$name tests/fuzz/cases/$$name; \
		echo "fuzz $$name, $(FUZZ_SECONDS) s"; \
		$(BUILD)/tests/fuzz/fuzz_$$name -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 \
			-verbosity=0 -print_final_stats=1 -artifact_prefix=tests/fuzz/cases/$$name/ \
			$(BUILD)/corpus/$$name tests/fuzz/cases/$$name || exit 1; \
	done

# --- benchmarks ------------------------------------------------------------------------------
# tests/bench/bench_<what>.c is a program each; BENCH_SECONDS is the time of one line of a table.
BENCHES := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard tests/bench/bench_*.c)))
$(BENCHES): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_SUPPORT) $(LIBS) $(GENERATED)
	$(call say,LINK) $(CC) $(LDFLAGS) $^ $(PKG_LIBS) $(TEST_LIBS) -lm -o $@
$(BUILD)/tests/bench/%.o: CFLAGS += -O3
.PHONY: bench bench-run
BENCH_PACKAGES := wrk nginx-light
bench:
	@tests/deps.sh $(DEBIAN_PACKAGES) $(BENCH_PACKAGES)
	@$(MAKE) --no-print-directory -j$(JOBS) bench-run
bench-run: $(BENCHES) all
	@for bench in $(BENCHES); do $$bench || exit 1; echo; done
	@tests/bench/http.sh $(BUILD)

# What `make check` runs; `make demo` and `make check` first install what is missing.
.PHONY: unit e2e check-all
unit: $(TESTS) all
	tests/run.sh $(TESTS)
e2e: $(E2E_TESTS) $(BUILD)/gen/openapi.json all
	DEFORMD=$(BUILD)/deformd tests/run.sh $(E2E_TESTS)
check-all: $(TESTS) $(E2E_TESTS) $(BUILD)/gen/openapi.json $(REPLAYS) all
	tests/layers.sh
	tests/docs.sh $(BUILD)/deformd
	DEFORMD=$(BUILD)/deformd tests/run.sh $(TESTS) $(REPLAYS) $(E2E_TESTS)
check: deps
	@$(MAKE) --no-print-directory -j$(JOBS) check-all
# What CI runs under the sanitizers: everything but the widest sweeps over models under address and
# undefined behaviour, what has threads under the thread sanitizer. `make config=asan check` and
# `make config=tsan check` run all.
.PHONY: sanitize check-short check-threads
SWEEPS := %/test_deform_reference %/test_skin_hostile %/test_skin_invariants %/test_pmx_write
THREADED := $(filter $(BUILD)/tests/server/% %/test_cache %/test_motion_store,$(TESTS))
sanitize: deps
	@$(MAKE) --no-print-directory -j$(JOBS) config=asan check-short
	@$(MAKE) --no-print-directory -j$(JOBS) config=tsan check-threads
check-short: $(filter-out $(SWEEPS),$(TESTS)) $(E2E_TESTS) $(BUILD)/gen/openapi.json $(REPLAYS) all
	DEFORMD=$(BUILD)/deformd tests/run.sh $(filter-out $(SWEEPS),$(TESTS)) $(REPLAYS) $(E2E_TESTS)
check-threads: $(THREADED) $(E2E_TESTS) $(BUILD)/gen/openapi.json all
	DEFORMD=$(BUILD)/deformd tests/run.sh $(THREADED) $(E2E_TESTS)
# `make coverage`: lines of core and api that the tests run; fails under COVERAGE_LEAST percent.
COVERAGE_LEAST ?= 90
.PHONY: coverage coverage-run
coverage: deps
	@tests/deps.sh gcovr
	@$(MAKE) --no-print-directory -j$(JOBS) config=coverage coverage-run
coverage-run: $(TESTS) $(E2E_TESTS) $(BUILD)/gen/openapi.json $(REPLAYS) all
	find $(BUILD) -name '*.gcda' -delete
	DEFORMD=$(BUILD)/deformd tests/run.sh $(TESTS) $(REPLAYS) $(E2E_TESTS)
	gcovr --root . --object-directory $(BUILD) --filter core/ --filter api/ --sort-uncovered --fail-under-line $(COVERAGE_LEAST)

demo: deps
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@tests/demo/demo.sh $(BUILD)

deps:
	@tests/deps.sh $(DEBIAN_PACKAGES)

# `make build/release/tests/core/test_rig.ok` builds and runs one test.
%.ok: % FORCE
	$(abspath $<)
.PHONY: FORCE
FORCE:

# --- looking after the source ----------------------------------------------------------------
C_FILES = $(sort $(shell git ls-files '*.c' '*.h' 2>/dev/null || find . -path ./build -prune -o -name '*.[ch]' -print))
LINT_PACKAGES := clang clang-format cppcheck
format:
	clang-format -i $(C_FILES)
format-check:
	@tests/deps.sh $(LINT_PACKAGES)
	clang-format --dry-run -Werror $(C_FILES)
# What cppcheck 2.10 sees where nothing is: arrays that a callee fills, pointers into arrays of
# arrays, and a reader's note of the key it is at, which the same function takes back.
CPPCHECK_WRONG := missingIncludeSystem uninitvar legacyUninitvar CastIntegerToAddressAtReturn \
	autoVariables:api/pose_json.c autoVariables:api/pose_reader.c
lint:
	@tests/deps.sh $(DEBIAN_PACKAGES) $(LINT_PACKAGES)
	cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
		$(addprefix --suppress=,$(CPPCHECK_WRONG)) -I. kernels core api server
	for lanes in 1 8; do \
		$(CLANG) -fsyntax-only -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Wall -Wextra -Werror \
			-I. -DDFM_ITEM_LANES=$$lanes kernels/skin.cl || exit 1; \
	done

# The kernel in a simulated device: accesses out of bounds, data races, wrong calls. A few minutes.
# (Optimised, skin.cl has an intrinsic that oclgrind 21.10 does not know.)
.PHONY: oclgrind-test oclgrind-run
oclgrind-test:
	@tests/deps.sh $(DEBIAN_PACKAGES) oclgrind
	@$(MAKE) --no-print-directory oclgrind-run
oclgrind-run: $(BUILD)/tests/core/test_skinner_opencl
	CK_RUN_CASE=kernel CK_FORK=no oclgrind --build-options -cl-opt-disable --data-races --check-api \
		--log $(BUILD)/oclgrind.log $<
	@cat $(BUILD)/oclgrind.log && test ! -s $(BUILD)/oclgrind.log

# The NEON kernel, cross-compiled and run by an emulator: half a minute.
NEON_PACKAGES := gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
NEON := build/neon/variants
NEON_CC := aarch64-linux-gnu-gcc -std=c11 -D_GNU_SOURCE -I. -O3 -fno-math-errno -fno-trapping-math $(WARNINGS)
NEON_SOURCES := tests/kernels/variants.c tests/reference/reference.c \
	$(addprefix tests/data/,build.c model_grid.c compare.c) $(wildcard kernels/*.c core/rig/*.c) \
	$(addprefix core/,arena.c deform.c layout.c model.c morph.c names.c pmx_read.c pmx_weights.c pmx_write.c \
	pose.c skin_bind.c skinner.c skinner_cpu.c status.c text.c warnings.c workspace.c)
.PHONY: neon-test neon-run
neon-test:
	@tests/deps.sh make $(NEON_PACKAGES)
	@$(MAKE) --no-print-directory neon-run
neon-run: $(NEON)
	qemu-aarch64 -L /usr/aarch64-linux-gnu $(NEON) neon
$(NEON): $(NEON_SOURCES) $(wildcard kernels/*.h core/*.h core/rig/*.h)
	@mkdir -p $(@D)
	$(call say,CC) $(NEON_CC) -ffp-contract=fast -c kernels/skin_neon.c -o $@.o && \
		$(NEON_CC) -ffp-contract=off $(filter-out kernels/skin_neon.c,$(NEON_SOURCES)) $@.o -lm -o $@

PREFIX ?= /usr/local
# The manual has its flags from --help.
$(BUILD)/deformd.8: docker/deformd.8.in $(BUILD)/deformd
	$(call say,GEN) $(BUILD)/deformd --help | awk ' \
		/^  --/ { flag = substr($$0, 3, 27); sub(/ +$$/, "", flag); gsub(/-/, "\\-", flag); \
			text = substr($$0, 32); printf ".TP\n.B %s\n%s\n", flag, text; next } \
		/^Exit/ { exit } \
		/^ +/ { sub(/^ +/, ""); print }' >$@.options && \
		sed -e '/^@OPTIONS@$$/{r $@.options' -e 'd}' -e 's/@VERSION@/$(VERSION)/' $< >$@
install: $(BUILD)/deformd $(BUILD)/deformd.8
	install -D -m 0755 $(BUILD)/deformd $(DESTDIR)$(PREFIX)/bin/deformd
	install -D -m 0644 $(BUILD)/deformd.8 $(DESTDIR)$(PREFIX)/share/man/man8/deformd.8
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/local/bin|$(PREFIX)/bin|' docker/deformd.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/deformd.service
	chmod 0644 $(DESTDIR)$(PREFIX)/lib/systemd/system/deformd.service

clean:
	rm -rf build

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
