# make run     build Larder and start it before a slow sample site
# make build   the programs alone: target/release/larder and larder-lab
# make check   the quick loop: format, lints, fast tests
# make test    everything; installs what the tests need
# make deb     Debian's package, in target/deb
# make dist    a tarball with man pages, completions and units, in target/dist
# make static  programs without libraries (musl)
# make bench   Larder beside every other server: tables in target/bench; ROUNDS=5 is shorter (a quarter of an hour otherwise)
# make microbench  the benchmarks of the crates

CARGO ?= cargo

.PHONY: run build static check test bench microbench deb dist

build:
	$(CARGO) build --release -p larder -p larder-lab

# Needs `rustup target add x86_64-unknown-linux-musl` and Debian's musl-tools.
MUSL := $(shell uname -m)-unknown-linux-musl
static:
	$(CARGO) build --release --target $(MUSL) -p larder -p larder-lab

deb: build
	scripts/deb.sh

dist: build
	scripts/dist.sh

run: build
	"$${CARGO_TARGET_DIR:-target}"/release/larder demo

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test --workspace --lib --bins
	$(CARGO) test -p larder-tests --test tidy

test:
	scripts/test.sh

bench: build
	scripts/bench-deps.sh
	scripts/bench.sh

microbench:
	$(CARGO) bench --workspace
