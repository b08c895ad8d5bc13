# rdzvscope: two commands do all the set-up on a fresh Debian machine with Rust:
#   make demo    installs what is missing, builds, and runs the main job on the real incident in testdata/
#   make test    installs what it needs and runs every test

CARGO   ?= cargo
PREFIX  ?= /usr/local
DESTDIR ?=
BIN     := target/release/rdzvscope
MANDIR  := $(DESTDIR)$(PREFIX)/share/man/man1
SHARE   := $(DESTDIR)$(PREFIX)/share

INCIDENT := testdata/incident-torch1.13
DEMO     := $(INCIDENT)/node-a.pcap $(INCIDENT)/node-b.pcap $(INCIDENT)/node-c.pcap \
            --oom $(INCIDENT)/logs --hosts testdata/hosts --boot node-a=2026-11-29T11:12:08Z

.PHONY: help demo build test lint bench simulate fuzz-smoke install uninstall clean setup-build setup-test

help:
	@sed -n 's/^#   //p' Makefile
	@echo "also: build, lint, bench, simulate, fuzz-smoke, install (PREFIX=$(PREFIX)), uninstall, clean"

setup-build:
	@sh tools/setup.sh build

setup-test:
	@sh tools/setup.sh test

build: setup-build
	$(CARGO) build --release --locked

demo: build
	$(BIN) analyze $(DEMO) --exit-zero

test: setup-test
	$(CARGO) test --locked --all-targets
	$(CARGO) test --locked --doc

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings

# Ratios against other readers of the same file, in one run; never absolute times.
bench: build
	sh tools/bench.sh $(BIN)

# Clusters whose truth is known (docs/simulation.md); SEED, CLUSTERS and HOSTS choose others.
simulate: build
	$(CARGO) run --release --locked --example simulate -- run --binary $(BIN) \
	  --seed $(or $(SEED),1) --clusters $(or $(CLUSTERS),200) --hosts $(or $(HOSTS),100)

# A minute for each fuzz target; needs the nightly toolchain and cargo-fuzz.
fuzz-smoke:
	for t in capture frame stream store nccl oom; do \
	  $(CARGO) +nightly fuzz run $$t -- -max_total_time=60 -timeout=10 -rss_limit_mb=2048 || exit 1; \
	done

install: build
	install -D -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/rdzvscope
	mkdir -p $(MANDIR)
	$(BIN) man $(MANDIR)
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(BIN) completions bash > $(SHARE)/bash-completion/completions/rdzvscope
	$(BIN) completions zsh > $(SHARE)/zsh/site-functions/_rdzvscope
	$(BIN) completions fish > $(SHARE)/fish/vendor_completions.d/rdzvscope.fish

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/rdzvscope $(MANDIR)/rdzvscope*.1
	rm -f $(SHARE)/bash-completion/completions/rdzvscope $(SHARE)/zsh/site-functions/_rdzvscope
	rm -f $(SHARE)/fish/vendor_completions.d/rdzvscope.fish

clean:
	$(CARGO) clean
