# The front door. Everything a person needs is one of these; Meson does the work behind them.
#
#   make            build build/drdotnet (installs missing Debian packages first and says which)
#   make desktop    also the window, drdotnet-desktop: installs WebKitGTK first (where that is there, make builds it too)
#   make demo       start a sick .NET app, examine it, print the reports, leave nothing running
#   make test       every test; ends with "N passed, N failed"
#   make image      the container image drdotnet/web (needs Docker)
#   make lint asan coverage matrix fuzz soak bench golden docs examples install clean

BUILD ?= build
PREFIX ?= /usr/local
# No terminal, no questions.
export DEBIAN_FRONTEND = noninteractive

.PHONY: all desktop setup configure demo test unit lint asan coverage matrix fuzz soak bench golden docs examples install install-desktop image clean patients
all: configure
	@ninja -C $(BUILD) programs --quiet
	@echo "built $(BUILD)/drdotnet $$($(BUILD)/drdotnet --version | cut -d' ' -f2)"

desktop:
	@tools/setup desktop
	@$(MAKE) --no-print-directory all
	@echo "built $(BUILD)/drdotnet-desktop"

configure:
	@tools/configure $(BUILD) $(MESON_ARGS)

setup:
	@tools/setup build test

patients:
	@tests/patients/build --debug $(BUILD)/patients

demo: all patients
	@tools/demo $(BUILD)

# Configured after the setup, which installs what Meson then finds.
test: setup patients
	@tools/configure $(BUILD) $(MESON_ARGS)
	@ninja -C $(BUILD) --quiet
	@tests/run --build $(BUILD) $(TEST_ARGS)

# Only what needs no .NET: seconds.
unit: configure
	@ninja -C $(BUILD) --quiet
	@tests/run --build $(BUILD) --unit

lint: configure
	@tools/setup lint
	@ninja -C $(BUILD) --quiet
	@tools/lint $(BUILD)

# Everything, or what TEST_ARGS chooses. A small quarantine, so that limits on memory hold under the sanitizer too; and its search
# for leaks survives libraries that are loaded late.
asan: patients
	@tools/setup build test
	@tools/configure build-asan -Db_sanitize=address,undefined
	@ninja -C build-asan --quiet
	@ASAN_OPTIONS=quarantine_size_mb=4:thread_local_quarantine_size_kb=64:intercept_tls_get_addr=0 \
		UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		LSAN_OPTIONS=suppressions=$(abspath tests/leaks.supp):print_suppressions=0 \
		DRDOTNET_PATIENTS=$(abspath $(BUILD))/patients \
		tests/run --build build-asan $(TEST_ARGS)

# What the tests reach; a program that is killed leaves no counts, and counts that others' users may not write are lost.
coverage: patients
	@tools/setup build test coverage
	@tools/configure build-coverage -Db_coverage=true
	@ninja -C build-coverage --quiet
	@find build-coverage -name '*.gcda' -delete
	@DRDOTNET_PATIENTS=$(abspath $(BUILD))/patients tests/run --build build-coverage $(TEST_ARGS); code=$$?; \
		tools/coverage build-coverage; exit $$code

# Long tables whole: every test on every runtime and kind of GC, every profiler on every sickness. Hours; MATRIX_ARGS="--shard 1/4"
# runs a part, and what passed at this commit is not run again.
matrix: all patients
	@tools/setup build test
	@ninja -C $(BUILD) --quiet
	@tools/matrix $(BUILD) $(MATRIX_ARGS)

fuzz:
	@tools/setup build lint
	@tools/fuzz $(FUZZ_ARGS)

soak: all patients
	@tools/soak $(BUILD)

bench: all patients
	@tools/setup bench
	@bench/run --build $(BUILD)

golden: configure
	@ninja -C $(BUILD) --quiet
	@UPDATE_GOLDEN=1 tests/run --build $(BUILD) --unit --only report
	@git --no-pager diff --stat -- tests/golden

examples: all patients
	@examples/web-api/make $(abspath $(BUILD))/drdotnet $(abspath $(RUNTIME))

# Pages made from the tables; a test fails when they are stale.
docs: all
	@$(BUILD)/drdotnet _generate guide >docs/guide.md
	@$(BUILD)/drdotnet _generate man >docs/drdotnet.1
	@$(BUILD)/drdotnet _generate rest >docs/rest.md
	@$(BUILD)/drdotnet _generate openapi | tools/web api >$(BUILD)/rest.d.ts && mv $(BUILD)/rest.d.ts web/src/lib/rest.d.ts
	@$(BUILD)/drdotnet _generate settings >$(BUILD)/settings.md
	@sed -i -e '/^| Key | Option |/,/^$$/{/^$$/!d}' -e '/^<!-- settings -->$$/r $(BUILD)/settings.md' docs/configuration.md
	@$(BUILD)/drdotnet _generate symptoms >$(BUILD)/symptoms.md
	@sed -i -e '/^| What you see | Run |$$/,/^$$/{/^$$/!d}' -e '/^<!-- symptoms -->$$/r $(BUILD)/symptoms.md' README.md

install: all
	install -D -m 755 $(BUILD)/drdotnet $(DESTDIR)$(PREFIX)/bin/drdotnet
	ln -sfn drdotnet $(DESTDIR)$(PREFIX)/bin/profcpu
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's,/usr/local/bin,$(PREFIX)/bin,' deploy/drdotnet.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/drdotnet.service
	@if [ -x $(BUILD)/drdotnet-desktop ]; then $(MAKE) --no-print-directory install-desktop; fi
	install -D -m 755 $(BUILD)/drdotnet-dachost $(DESTDIR)$(PREFIX)/bin/drdotnet-dachost
	install -D -m 644 $(BUILD)/libdrdotnet-agent.so $(DESTDIR)$(PREFIX)/bin/libdrdotnet-agent.so
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(BUILD)/drdotnet _generate man >$(DESTDIR)$(PREFIX)/share/man/man1/drdotnet.1
	$(BUILD)/drdotnet completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/drdotnet
	$(BUILD)/drdotnet completion zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_drdotnet
	$(BUILD)/drdotnet completion fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/drdotnet.fish

# Only where the window was built (WebKitGTK).
install-desktop:
	install -D -m 755 $(BUILD)/drdotnet-desktop $(DESTDIR)$(PREFIX)/bin/drdotnet-desktop
	install -D -m 644 deploy/drdotnet.desktop $(DESTDIR)$(PREFIX)/share/applications/drdotnet.desktop
	install -D -m 644 deploy/drdotnet.svg $(DESTDIR)$(PREFIX)/share/icons/hicolor/scalable/apps/drdotnet.svg

image: all
	@deploy/image $(BUILD)

clean:
	rm -rf $(BUILD) build-asan build-coverage build-fuzz build-clang build-werror
