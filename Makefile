# gpurig: make lists its targets; make scenarios and make test are all the set-up there is.

GO      ?= go
BIN     := bin
OUT     := out
# The same flags for every command, in tests too: with others, all is compiled once more.
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath
# go-nvml's C prototypes are marked deprecated by its own header; the warnings are not ours to mend.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations

.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: gpurig static ## build gpurig, gpurig-docker, nvidia-container-cli, cdi-hook, the probe and the smoke workload into bin/
	$(GO) build -o $(BIN)/ ./cmd/gpurig-docker ./cmd/nvidia-container-cli

gpurig:
	@mkdir -p $(BIN)
	$(GO) build -o $(BIN)/ ./cmd/gpurig

static:
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GO) build -tags osusergo,netgo -ldflags '-s -w' -o $(BIN)/ ./cmd/gpurig-probe ./cmd/gpurig-smoke
	CGO_ENABLED=0 $(GO) build -tags osusergo,netgo -ldflags '-s -w -E gpurig/hook.entry' -o $(BIN)/ ./cmd/cdi-hook

# Where make install puts what it has built: DESTDIR is put before it, for who makes a package.
PREFIX  ?= /usr/local
DESTDIR ?=

install: ## build gpurig with its manual, completions and C libraries, and install it below PREFIX (/usr/local)
	packaging/stage.sh $(shell $(GO) env GOHOSTARCH) '$(DESTDIR)$(PREFIX)'

uninstall: ## remove what make install installs
	rm -rf '$(DESTDIR)$(PREFIX)/lib/gpurig' '$(DESTDIR)$(PREFIX)/share/doc/gpurig'
	cd '$(DESTDIR)$(PREFIX)' && rm -f bin/gpurig bin/gpurig-smoke share/man/man1/gpurig.1.gz share/man/man1/gpurig-*.1.gz \
		share/bash-completion/completions/gpurig share/zsh/vendor-completions/_gpurig share/fish/vendor_completions.d/gpurig.fish

dist: ## make archives, Debian packages, snaps and OCI images for each of DIST_ARCHS in out/dist, with their digests
	packaging/dist.sh $(OUT)/dist $(DIST_ARCHS)

DIST_ARCHS ?= amd64 arm64

hardware-kit: ## make out/gpurig-kit.tar.gz, for a machine with GPUs that has neither network nor compiler
	packaging/kit.sh $(KIT_ARCH) $(OUT)/gpurig-kit.tar.gz

KIT_ARCH ?= $(shell $(GO) env GOHOSTARCH)

test-packages: ## build the archives and packages from two folders, install, use and remove them
	GPURIG_PACKAGES=1 $(GO) test -count=1 -v -timeout 30m -run '^TestPackages$$' ./packaging

site: ## write the documentation as static pages into out/site
	$(GO) run ./packaging/site . $(OUT)/site

# The simulated verdicts come first: they need neither packages nor the programs of containers. Where those have to be
# here, in CI, one run has both.
scenarios: gpurig ## run every scenario: simulated, and then in real LXC and OCI containers where this machine can
	$(if $(GPURIG_REQUIRE_LXC),,$(BIN)/gpurig run)
	@$(MAKE) --no-print-directory static
	@packaging/need.sh lxc || true
	@packaging/need.sh oci || true
	@mkdir -p $(OUT)
	$(BIN)/gpurig run --target auto --report $(OUT)/report.json --report $(OUT)/report.xml --report $(OUT)/report.md --report $(OUT)/report.html

test: build ## run the tests; installs what they need when it may
	@packaging/need.sh lxc || true
	$(GO) test -timeout 20m ./hook ./runner/target/lxd ./... # the longest first

test-lxc: build ## run the tests that start real containers; a skip is a failure here
	@packaging/need.sh lxc
	@packaging/old-glibc.sh
	GPURIG_REQUIRE_LXC=1 $(GO) test -count=1 -timeout 20m ./runner/target/lxc/... ./hook/...

test-lxc-newer: build ## run the tests and scenarios of LXC with that of Debian LXC_SUITE, which is not installed
	@packaging/need.sh lxc
	@packaging/old-glibc.sh
	packaging/with.sh lxc-$(LXC_SUITE) $(LXC_SUITE) "$(LXC_PACKAGES)" env GPURIG_REQUIRE_LXC=1 $(GO) test -count=1 -timeout 20m ./runner/target/lxc/... ./hook/...
	packaging/with.sh lxc-$(LXC_SUITE) $(LXC_SUITE) "$(LXC_PACKAGES)" $(BIN)/gpurig run --target sim,lxc

# trixie has 6.0, sid 7.0.
LXC_SUITE ?= sid
LXC_PACKAGES := lxc liblxc1t64 liblxc-common libc6

test-lxd: build ## run the tests that have a private LXD make containers; a skip is a failure here
	@packaging/need.sh lxd machine
	GPURIG_REQUIRE_LXD=1 $(GO) test -count=1 -parallel 4 ./runner/target/lxd/...
	GPURIG_REQUIRE_MACHINE=1 $(GO) test -count=1 -run '^TestLXD' ./runner/programs
	$(MAKE) scenarios-lxd

scenarios-lxd: build ## run some of the scenarios on a private LXD
	$(BIN)/gpurig run --target sim-lxd,lxd --lxd-socket private --jobs 4 --shard $(LXD_SHARD)

test-incus: build ## run the tests that have a private Incus make containers; a skip is a failure here
	@packaging/need.sh incus
	GPURIG_REQUIRE_INCUS=1 $(GO) test -count=1 -parallel 4 -run '$(INCUS_TESTS)' ./runner/target/lxd
	$(MAKE) scenarios-incus

scenarios-incus: build ## run some of the scenarios on a private Incus
	$(BIN)/gpurig run --target sim-lxd,incus --lxd-socket private --jobs 4 --shard $(INCUS_SHARD)

INCUS_TESTS := ^Test(StoriesAreAsSimulated|Daemon.*|FaultsOfTheDaemonAreBroken)$$/^incus$$
INCUS_SHARD ?= 7/64

# All scenarios on LXD take some minutes: make test-lxd LXD_SHARD=1/1.
LXD_SHARD ?= 3/16

test-oci: build ## run the tests that start containers by runc and crun; a skip is a failure here
	@packaging/need.sh oci
	@packaging/old-glibc.sh
	GPURIG_REQUIRE_OCI=1 GPURIG_PEERS=1 $(GO) test -count=1 ./runner/target/oci/...

test-docker: build ## run the tests that have a private Docker engine make containers; a skip is a failure here
	@packaging/need.sh docker
	@packaging/old-glibc.sh
	GPURIG_REQUIRE_DOCKER=1 GPURIG_PEERS=1 $(GO) test -count=1 -parallel 4 ./runner/target/docker/...
	$(MAKE) scenarios-docker

scenarios-docker: build ## run some of the scenarios on a private Docker engine
	$(BIN)/gpurig run --target sim-docker,docker --jobs 4 --shard $(DOCKER_SHARD)

# All scenarios on Docker take some minutes: make test-docker DOCKER_SHARD=1/1.
DOCKER_SHARD ?= 5/16

test-docker-cdi: build ## run the tests in which a Docker engine injects CDI devices, with that of Debian DOCKER_SUITE
	@packaging/need.sh docker
	@packaging/old-glibc.sh
	@packaging/unpack.sh docker-$(DOCKER_SUITE) $(DOCKER_SUITE) docker.io containerd
	PATH=$(NEW_DOCKER):$$PATH GPURIG_REQUIRE_DOCKER=1 GPURIG_REQUIRE_DOCKER_CDI=1 GPURIG_PEERS=1 $(GO) test -count=1 -run 'Engine|Inside' ./runner/target/docker
	PATH=$(NEW_DOCKER):$$PATH $(BIN)/gpurig run --target sim-docker,docker-cdi --jobs 4 --shard $(DOCKER_SHARD)

# trixie has 26.1, sid 28.5. The engine is unpacked and not installed; runc is this machine's.
DOCKER_SUITE ?= trixie
NEW_DOCKER := /var/cache/gpurig/docker-$(DOCKER_SUITE)/usr/sbin:/var/cache/gpurig/docker-$(DOCKER_SUITE)/usr/bin

test-podman: build ## run the tests in which Podman makes containers; a skip is a failure here
	@packaging/need.sh podman
	@packaging/old-glibc.sh
	GPURIG_REQUIRE_PODMAN=1 $(GO) test -count=1 ./runner/target/podman/...
	$(BIN)/gpurig run --target sim-podman,podman --jobs 4 --shard $(PODMAN_SHARD)

conformance: build ## ask every consumer of CDI Specs at hand, and newer releases that are unpacked, and write the table of docs/conformance.md
	@packaging/need.sh podman
	@packaging/unpack.sh docker-trixie trixie docker.io containerd
	@packaging/unpack.sh docker-sid sid docker.io containerd
	@mkdir -p $(OUT)/peers
	GOBIN=$(abspath $(OUT)/peers) $(GO) install github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-container-runtime@v1.20.1
	$(BIN)/gpurig conformance --target library,gpurig --report $(OUT)/c1.json
	PATH=$(call UNPACKED,docker-trixie):$$PATH $(BIN)/gpurig conformance --with $(OUT)/c1.json --target docker --report $(OUT)/c2.json
	PATH=$(call UNPACKED,docker-sid):$$PATH $(BIN)/gpurig conformance --with $(OUT)/c2.json --target docker --report $(OUT)/c3.json
	$(BIN)/gpurig conformance --with $(OUT)/c3.json --target podman --report $(OUT)/c4.json
	packaging/with.sh podman-$(PODMAN_SUITE) $(PODMAN_SUITE) "$(PODMAN_PACKAGES)" $(BIN)/gpurig conformance --with $(OUT)/c4.json --target podman --report $(OUT)/c5.json
	PATH=$(abspath $(OUT)/peers):$$PATH $(BIN)/gpurig conformance --with $(OUT)/c5.json --target nvidia --report $(OUT)/conformance.json --report $(OUT)/conformance.md --report $(OUT)/conformance.html
	sed -i '/^As of /,$$d' docs/conformance.md && cat $(OUT)/conformance.md >>docs/conformance.md

UNPACKED = /var/cache/gpurig/$(1)/usr/sbin:/var/cache/gpurig/$(1)/usr/bin

test-podman-newer: build ## the same with the Podman of Debian PODMAN_SUITE, which is not installed
	@packaging/need.sh podman
	packaging/with.sh podman-$(PODMAN_SUITE) $(PODMAN_SUITE) "$(PODMAN_PACKAGES)" env GPURIG_REQUIRE_PODMAN=1 $(GO) test -count=1 ./runner/target/podman/...
	packaging/with.sh podman-$(PODMAN_SUITE) $(PODMAN_SUITE) "$(PODMAN_PACKAGES)" $(BIN)/gpurig run --target sim-podman,podman --jobs 4 --shard $(PODMAN_SHARD)

# sid has 5.8. All scenarios take some minutes: make test-podman PODMAN_SHARD=1/1.
PODMAN_SHARD ?= 5/16
PODMAN_SUITE ?= sid
PODMAN_PACKAGES := podman conmon netavark libc6 libsubid6 libgpgme45 libgpg-error0 libassuan9 libseccomp2 libsqlite3-0 libglib2.0-0t64 libpcre2-8-0

pages: ## test the pages of reports in a headless Chromium, and keep what they look like in out/pages
	@packaging/need.sh chromium
	@mkdir -p $(OUT)/pages
	GPURIG_REQUIRE_PAGES=1 GPURIG_PAGES=$(abspath $(OUT)/pages) $(GO) test -count=1 -run 'Browser|Window' ./reports

test-sanitize: ## run the tests of our libcuda with the C compiler's checks of addresses and undefined behaviour
	SANITIZE=1 $(GO) test -count=1 ./fakehw/cudalib

test-machine: build ## run the tests that enter fake machines; a skip is a failure here
	@packaging/need.sh machine lxc lxd oci docker
	GPURIG_REQUIRE_MACHINE=1 GPURIG_PEERS=1 $(GO) test -count=1 ./fakehw/machine/... ./fakehw/userspace ./fakehw/fusefs ./fakehw/mntns ./runner/target/vfio
	GPURIG_REQUIRE_MACHINE=1 $(GO) test -count=1 -run '^TestScripts$$/^(enter|fault|hardware|mount)$$' ./runner/cli
	$(MAKE) scenarios-hardware
	$(BIN)/gpurig host enter dgx-a100 -- $(BIN)/gpurig run --target lxc,oci,docker,lxd --shard 3/200

scenarios-hardware: build ## run the scenarios of hardware inside fake machines
	for host in t4-server a100-mig-2g-3g; do $(BIN)/gpurig host enter $$host -- $(BIN)/gpurig run --hardware --target $(HARDWARE_TARGETS) hardware || exit; done
	$(BIN)/gpurig host enter workstation -- $(BIN)/gpurig run --hardware --allow-reconfigure --target sim,vfio hardware/to-a-machine-and-back

HARDWARE_TARGETS := sim,lxc,sim-lxd,lxd,sim-oci,oci,sim-docker,docker

test-slurm: build ## run the test in which a Slurm of several nodes runs shards on fake machines; a skip is a failure here
	@packaging/need.sh slurm machine
	GPURIG_REQUIRE_SLURM=1 GPURIG_REQUIRE_MACHINE=1 $(GO) test -count=1 -v -run '^TestSlurm' ./runner/pipeline

test-qemu: build ## run the tests and scenarios that boot virtual machines; a skip is a failure here
	@packaging/qemu.sh
	GPURIG_REQUIRE_QEMU=1 $(GO) test -count=1 ./fakehw/vfiouser ./runner/target/qemu
	$(BIN)/gpurig run vm --target sim,vfio,qemu

bench: build ## run the benchmarks, ours and the peers' side by side
	$(GO) test -run '^$$' -bench . -benchmem ./...

bench-once: build ## run each benchmark once, so that it is known to work
	$(GO) test -short -run '^$$' -bench . -benchtime 1x $$(grep -rl '^func Benchmark' --include='*_test.go' . | xargs -n1 dirname | sort -u)

lint: ## gofmt, vet, import directions
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...

golden: ## rewrite the golden files; review the difference
	GPURIG_UPDATE_GOLDEN=1 $(GO) test $$(grep -rl 'gpurig/fixtures/golden' --include='*_test.go' . | xargs -n1 dirname | sort -u)

naive: ## the negative control: the attack tests fail with a naive hook and translator
	GPURIG_NAIVE=1 $(GO) test -count=1 -run '^TestNaive' ./packaging

mutants: ## put small mistakes into the product, one at a time: the simulated scenarios catch them
	GPURIG_MUTANTS=all $(GO) test -count=1 -v -timeout 60m -run '^TestMutants$$' ./packaging | grep -v '^=== '

faults: build ## every error at every system call of the hook, every helper of a target killed at every step, and more restarts than CI has
	@packaging/need.sh lxc
	GPURIG_REQUIRE_LXC=1 GPURIG_FAULTS=1 $(GO) test -count=1 -timeout 60m -run 'F[0-9]|Killed|LXCStopped' ./hook
	GPURIG_FAULTS=1 $(GO) test -count=1 -timeout 60m -run KilledHelpers ./runner/target/...

races: ## exchange directories under 100,000 operations of each kind
	d=$$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) && trap 'rm -rf "$$d"' EXIT && \
	TMPDIR="$$d" GPURIG_RACES=100000 $(GO) test -count=1 -run '^TestA3A22ExchangeRace$$' ./hook/inroot

FUZZTIME ?= 10s
fuzz: ## fuzz every parser, FUZZTIME each (10s)
	@packaging/fuzz.sh $(FUZZTIME)

fuzz-some: ## fuzz every parser a little, two at a time, guided by the coverage of our own code
	@packaging/fuzz.sh 1000x 2

check-hook: ## cdi-hook is static, and has the packages and the size that are checked in
	$(GO) test -count=1 -run '^TestShipped' ./hook

check: lint check-hook test scenarios test-lxc test-lxd test-incus test-machine test-oci test-docker test-slurm naive races ## what CI runs

clean: ## remove what was built
	rm -rf $(BIN) $(OUT)

.PHONY: test-slurm test-qemu site gpurig static install uninstall dist test-packages faults mutants help build scenarios scenarios-lxd scenarios-incus scenarios-docker scenarios-hardware test test-lxc test-lxc-newer test-lxd test-incus test-oci test-docker test-docker-cdi test-podman test-podman-newer conformance test-machine test-sanitize bench bench-once lint golden fuzz fuzz-some naive races check-hook check clean hardware-kit
