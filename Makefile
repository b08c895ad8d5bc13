# rdzvscope: two commands do all the set-up on a fresh Debian machine with Rust:
#   make demo    installs what is missing, builds, and runs the main job on the real incident in testdata/
#   make test    installs what it needs and runs every test

CARGO   ?= cargo
PREFIX  ?= /usr/local
DESTDIR ?=
BIN     := target/release/rdzvscope
SHARE   := $(DESTDIR)$(PREFIX)/share

INCIDENT := testdata/incident-torch1.13
DEMO     := $(INCIDENT)/node-a.pcap $(INCIDENT)/node-b.pcap $(INCIDENT)/node-c.pcap \
            --oom $(INCIDENT)/logs --hosts testdata/hosts --boot node-a=2026-11-29T11:12:08Z

.PHONY: help demo build test lint bench scale simulate soak live-figures fuzz-smoke install uninstall clean setup-build setup-test \
        kernel-fuzz conformance conformance-latest conformance-table \
        setup-dist dist dist-musl dist-aarch64 dist-aarch64-musl dist-smoke vendor image deny doc

help:
	@sed -n 's/^#   //p' Makefile
	@echo "also: build, lint, doc, deny, bench, scale, simulate, soak, live-figures, kernel-fuzz, conformance, fuzz-smoke, install (PREFIX=$(PREFIX)), uninstall, clean"
	@echo "to hand out: dist (static tarball, .deb, .rpm, SBOM), dist-smoke (tries them), vendor (source for machines without network), image"

setup-build:
	@sh tools/setup.sh build

setup-test:
	@sh tools/setup.sh test

build: setup-build
	$(CARGO) build --release --locked

demo: build
	$(BIN) analyze $(DEMO) --exit-zero
	@echo
	@echo "That report begins so:"
	@$(BIN) analyze $(DEMO) --exit-zero | head -n 3
	@echo
	@echo "It was: rdzvscope analyze CAPTURES --oom LOGS --hosts HOSTS. The program is $(BIN); make install puts it in place,"
	@echo "and docs/quickstart.md goes on from here."

# Tests that could not be run here (no root, no nmap, no tshark) say why in target/skipped-tests.txt.
test: setup-test
	@rm -f target/skipped-tests.txt
	@status=0; $(CARGO) test --locked --all-targets && $(CARGO) test --locked --doc || status=$$?; \
	 sh tools/skipped.sh target/skipped-tests.txt; exit $$status

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings

# Ratios against other readers of the same file, in one run; never absolute times.
bench: build
	sh tools/bench.sh $(BIN)

# Time and memory at a quarter, half and all of a cluster of 10 000 hosts with a million kills and as many findings.
scale: build
	sh tools/scale.sh $(BIN)

# Connections of a hostile sender to this machine's kernel, in a network namespace: what recv() returned is the truth.
CONNECTIONS ?= 200000
kernel-fuzz: build
	sh tests/kernel/fuzz.sh $(BIN) $(CONNECTIONS) $(or $(SEED),1)

# Half an hour of `live` in a network namespace: full case, claims, kills, an interface that vanishes. As root; SECONDS=… is shorter.
soak: build
	python3 tools/soak.py --binary $(BIN) --seconds $(or $(SECONDS),1800)

# Rate, loss, processor time, memory and lag of `live` beside tcpdump. As root.
live-figures: build
	python3 tools/live-figures.py --binary $(BIN)

# Clusters whose truth is known (docs/simulation.md); SEED, CLUSTERS and HOSTS choose others.
simulate: build
	$(CARGO) run --release --locked --example simulate -- run --binary $(BIN) \
	  --seed $(or $(SEED),1) --clusters $(or $(CLUSTERS),200) --hosts $(or $(HOSTS),100)

# A minute for each fuzz target; needs the nightly toolchain and cargo-fuzz.
FUZZ_SECONDS ?= 60
fuzz-smoke:
	for t in $$($(CARGO) +nightly fuzz list); do \
	  $(CARGO) +nightly fuzz run $$t -- -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 || exit 1; \
	done

# What a release of PyTorch or NCCL does, held against the models: make conformance PYTORCH=2.15.0, make conformance NCCL=2.32.3.
# Needs root, Python with pip, tcpdump, nmap and a C compiler; at most 8 GB and half an hour; conformance/README.md tells more.
conformance: build
	RDZVSCOPE=$(CURDIR)/$(BIN) python3 conformance/run.py $(if $(NCCL),nccl $(NCCL),pytorch $(PYTORCH)) $(if $(PYTHON),--python $(PYTHON))

# For a weekly job: 0 when the newest releases of the index are in the table of docs/protocols.md.
conformance-latest:
	python3 conformance/run.py latest

conformance-table:
	python3 conformance/run.py table

setup-dist:
	@sh tools/setup.sh dist

# Static tarball, .deb, .rpm, SBOM, SHA256SUMS, in dist/.
dist: setup-dist
	sh tools/dist.sh x86_64-unknown-linux-gnu

# Prepared and untried: they need the target's standard library (rustup target add) and a C compiler for it.
dist-musl: setup-dist
	sh tools/dist.sh x86_64-unknown-linux-musl

dist-aarch64: setup-dist
	sh tools/dist.sh aarch64-unknown-linux-gnu

dist-aarch64-musl: setup-dist
	sh tools/dist.sh aarch64-unknown-linux-musl

# Tries what `dist` made: the tarball in an empty root, the .deb in a new Debian. Needs root.
dist-smoke:
	@sh tools/setup.sh smoke
	bash tools/dist-smoke.sh dist

# Source with all it depends on, in one tarball: docs/install.md says how it is built without a network.
vendor: setup-dist
	sh tools/vendor.sh

# A container image of the static binary; with podman or buildah.
image: dist
	$$(command -v buildah || command -v podman || echo docker) build -t rdzvscope -f Containerfile .

# Licences, bans and sources of dependencies; advisories where their database can be had.
deny:
	@sh tools/deny.sh

doc:
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --locked --no-deps --document-private-items

install: build
	sh tools/stage.sh $(BIN) "$(DESTDIR)" $(PREFIX)

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/rdzvscope $(SHARE)/man/man1/rdzvscope*.1
	rm -f $(SHARE)/bash-completion/completions/rdzvscope $(SHARE)/zsh/site-functions/_rdzvscope
	rm -f $(SHARE)/fish/vendor_completions.d/rdzvscope.fish
	rm -f $(DESTDIR)$(PREFIX)/lib/systemd/system/rdzvscope* $(DESTDIR)$(PREFIX)/lib/sysusers.d/rdzvscope*.conf
	rm -f $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/rdzvscope*.conf
	rm -f $(DESTDIR)$(PREFIX)/lib/wireshark/plugins/rdzvscope-*.lua
	rm -rf $(SHARE)/wireshark/profiles/rdzvscope $(SHARE)/doc/rdzvscope

clean:
	$(CARGO) clean
