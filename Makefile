# Every target sets up what it needs: a virtual environment, the pinned dependencies, a JRE where no Java >= 17 is found.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
READY := $(VENV)/.ready

SCRIPTDOM := $(VENV)/scriptdom
DEBEZIUM := tests/debezium/.cache
ASYNCAPI := tests/asyncapi/.cache
CLIENTS := tests/emulators
FETCHED := $(CLIENTS)/.cache
AZURITE := tests/azurite
KAFKA := tests/outputs/kafka/.cache
OPENSEARCH := tests/outputs/elasticsearch/.cache
POSTGRESQL := tests/outputs/postgres/.cache
NATS := tests/outputs/nats/.cache
PROMTOOL := tests/deploy/observability/.cache
CONSOLE := tests/console/go/.cache
COLLECTOR := tests/worlds/otelcol/.cache
MISSING := echo "It is not available here: the tests that need it are skipped, and fail in CI." >&2

.PHONY: demo test test-outputs test-desk test-emulators manifests kubernetes kubernetes-short check format bench bench-more soak lock setup scriptdom archive debezium asyncapi clients azurite chromium kafka nats opensearch postgresql promtool console-clients collector proto rules images clean

demo: setup
	$(BIN)/dstream demo

test: setup scriptdom archive debezium asyncapi azurite promtool
	$(BIN)/python -m tests.side_by_side dstream

# Each output against its real server, which its tests install and start by themselves.
test-outputs: setup azurite kafka nats opensearch postgresql
	$(BIN)/python -m tests.side_by_side outputs

# What a person does: the console in a browser and over its APIs, dead letters, edits of the configuration, pauses, tracing.
test-desk: setup archive azurite chromium console-clients collector
	$(BIN)/python -m tests.side_by_side desk

# The tests of the emulators: what DStream needs of the real servers, every statement, every frame, and foreign clients.
test-emulators: setup clients
	$(BIN)/python -m tests.side_by_side emulators

# What is under deploy/kubernetes, tried on an API server that is compiled for it once (Go, root for Debian's etcd; some minutes).
manifests: setup
	$(BIN)/python -m tests.kubernetes.manifests

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# DStream in a real cluster of two nodes on this machine, under load, while pods, a node and the API server are taken away. Needs root, Go and
# Debian's packages; some minutes once to compile Kubernetes.
CAMPAIGN := $(BIN)/python -m pytest -s --timeout 3600 tests/kubernetes --ignore tests/kubernetes/manifests

kubernetes: setup
	$(CAMPAIGN)

kubernetes-short: setup
	$(CAMPAIGN) -m "not soak"

# Prints one table of figures, beside the last run that was kept; never part of the tests. About half an hour.
# BENCH has options: make bench BENCH=--quick, BENCH="--parts ours,start --keep" (docs/measurements/README.md).
bench: setup
	@$(BIN)/python -m bench $(BENCH)

# Everything else that prints figures. About an hour. bench.executors needs root and says so elsewhere.
bench-more: setup
	$(BIN)/python bench/latency.py
	$(BIN)/python bench/memory.py
	$(BIN)/python bench/hot_table.py
	$(BIN)/python bench/console.py --part load
	$(BIN)/python -m bench.executors
	$(BIN)/python bench/sender.py
	$(BIN)/python bench/topics.py
	$(BIN)/python -m bench.questions
	$(BIN)/python -m bench.packs
	$(BIN)/python -m bench.envelopes
	$(BIN)/python -m bench.throttled
	$(BIN)/python bench/sqlserver_emulator.py
	$(BIN)/python -m bench.statements
	$(BIN)/python bench/servicebus_emulator.py
	$(BIN)/python bench/servicebus_durability.py

# DSTREAM_TEST_KILLS, DSTREAM_TEST_PAIRS and DSTREAM_TEST_SEED shape the campaigns of faults (docs/measurements/campaigns.md).
soak: setup archive azurite
	$(BIN)/python -m pytest -m soak --timeout 3600

setup: $(READY)

# pyspark is a source archive of 456 MB that pip builds once; afterwards it comes from pip's cache.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "DStream needs Python 3.11 or newer; '$(PYTHON)' is older. Try: make PYTHON=python3.11 ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the pinned dependencies into $(VENV) (the first time it fetches and builds Spark, 456 MB, which takes a few minutes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Microsoft's T-SQL parser, only for tests/scriptdom (docs/decisions/0004-scriptdom.md), which report when it is missing.
scriptdom: $(SCRIPTDOM)/.ready

$(SCRIPTDOM)/.ready: tests/scriptdom/requirements.txt | $(READY)
	@rm -rf $(@D)
	@echo "Fetching Microsoft's T-SQL parser into $(@D) (75 MB) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --no-compile --target $(@D) -r $< && touch $@ || $(MISSING)

# The classes of Spark's JVM, loaded and verified once and not at every start in a test.
archive: $(VENV)/spark.jsa

$(VENV)/spark.jsa: tests/jvm_archive.py $(READY)
	@echo "Keeping the classes of Spark's JVM in $@ (70 MB) ..."
	@$(BIN)/python -m tests.jvm_archive $@ || echo "It cannot be created here: Spark starts more slowly in the tests." >&2

# Debezium's own reader of its envelope, only for tests/debezium: 23 MB of jars, where Maven and a JDK are found.
debezium: $(DEBEZIUM)/.ready

$(DEBEZIUM)/.ready: tests/debezium/pom.xml tests/debezium/Unwrap.java
	@mkdir -p $(@D)
	@echo "Fetching Debezium into $(@D) (23 MB) ..."
	@mvn -q -B -f $< org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)/jars && javac -d $(@D) -cp '$(@D)/jars/*' $(word 2,$^) && touch $@ || $(MISSING)

# A NATS server, only for tests/outputs/nats, where none is on PATH: Debian's package, unpacked without root (10 MB).
nats: $(NATS)/.ready

$(NATS)/.ready:
	@mkdir -p $(@D)
	@echo "Fetching nats-server into $(@D) ..."
	@cd $(@D) && { command -v nats-server > /dev/null || { { apt-get download -qq nats-server || { apt-get update -qq && apt-get download -qq nats-server; }; } && dpkg-deb -x nats-server_*.deb . && rm nats-server_*.deb; }; } && touch .ready || $(MISSING)

# PostgreSQL of the distribution, only for tests/outputs/postgres, where the machine has none: Debian's packages, unpacked without root.
postgresql:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || $(MAKE) --no-print-directory $(POSTGRESQL)/.ready

$(POSTGRESQL)/.ready:
	@mkdir -p $(@D)
	@echo "Fetching PostgreSQL into $(@D) ..."
	@cd $(@D) && apt-get -qq download $$(apt-cache depends postgresql | sed -n 's/.*Depends: \(postgresql-[0-9]*\)$$/\1/p' | head -1) libpq5 libllvm14 2>/dev/null && for each in *.deb; do dpkg -x $$each . || exit 1; done && touch .ready || $(MISSING)

# An OpenSearch node, only for tests/outputs/elasticsearch: 53 MB of jars, where Maven and a JDK are found.
opensearch: $(OPENSEARCH)/.ready

$(OPENSEARCH)/.ready: tests/outputs/elasticsearch/pom.xml tests/outputs/elasticsearch/Node.java
	@mkdir -p $(@D)
	@echo "Fetching OpenSearch into $(@D) (53 MB) ..."
	@mvn -q -B -f $< org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)/jars && javac -d $(@D) -cp '$(@D)/jars/*' $(word 2,$^) && touch $@ || $(MISSING)

# AsyncAPI's own parser, only for tests/asyncapi (55 MB; it runs on Node.js).
asyncapi: $(ASYNCAPI)/.ready

$(ASYNCAPI)/.ready: tests/asyncapi/package.json tests/asyncapi/package-lock.json
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@echo "Fetching AsyncAPI's parser into $(@D) ..."
	@cd $(@D) && npm ci --silent --no-audit --no-fund --ignore-scripts && touch .ready || $(MISSING)

# Foreign clients, only for tests/emulators/*/clients (docs/emulators/foreign-clients.md): each where its tool chain is found.
clients: $(foreach client,sqlserver/python sqlserver/node sqlserver/java sqlserver/go servicebus/node servicebus/go servicebus/sdk,$(FETCHED)/$(client)/.ready)

$(FETCHED)/sqlserver/python/.ready: $(CLIENTS)/sqlserver/clients/python/requirements.txt | $(READY)
	@rm -rf $(@D)
	@echo "Fetching the Python clients into $(@D) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --no-compile --target $(@D) -r $< && touch $@ || $(MISSING)

$(FETCHED)/%/node/.ready: $(CLIENTS)/%/clients/node/package.json $(CLIENTS)/%/clients/node/package-lock.json
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@echo "Fetching a Node client into $(@D) ..."
	@cd $(@D) && npm ci --silent --no-audit --no-fund --ignore-scripts && touch .ready || $(MISSING)

$(FETCHED)/sqlserver/java/jars/.ready: $(CLIENTS)/sqlserver/clients/java/pom.xml
	@mkdir -p $(@D)
	@echo "Fetching the Java client into $(@D) ..."
	@mvn -q -B -f $< org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D) && touch $@ || $(MISSING)

$(FETCHED)/sqlserver/java/.ready: $(CLIENTS)/sqlserver/clients/java/Client.java $(FETCHED)/sqlserver/java/jars/.ready
	@javac -d $(@D) -cp '$(@D)/jars/*' $< && touch $@ || $(MISSING)

$(FETCHED)/sqlserver/go/.ready: $(wildcard $(CLIENTS)/sqlserver/clients/go/*)
$(FETCHED)/servicebus/go/.ready: $(wildcard $(CLIENTS)/servicebus/clients/go/*)
$(FETCHED)/%/go/.ready:
	@mkdir -p $(@D)
	@echo "Compiling a Go client into $(@D) ..."
	@cd $(CLIENTS)/$*/clients/go && go build -o $(CURDIR)/$(@D)/client . && touch $(CURDIR)/$@ || $(MISSING)

# The tests that Microsoft's SDK for Python publishes in its source archive; nothing of it is installed.
$(FETCHED)/servicebus/sdk/.ready: $(CLIENTS)/servicebus/clients/sdk_suite/requirements.txt | $(READY)
	@rm -rf $(@D)
	@mkdir -p $(@D)
	@echo "Fetching the SDK's own tests into $(@D) ..."
	@$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --require-hashes --dest $(@D) -r $< && tar -xzf $(@D)/*.tar.gz -C $(@D) --strip-components 1 && touch $@ || $(MISSING)

# Microsoft's emulator of Blob storage, only for the tests of blob leases (186 MB; it runs on Node.js).
azurite: $(AZURITE)/.cache/.ready

$(AZURITE)/.cache/.ready: $(AZURITE)/package.json $(AZURITE)/package-lock.json
	@mkdir -p $(@D)
	@cp $^ $(@D)
	@echo "Fetching Azurite into $(@D) ..."
	@cd $(@D) && npm ci --silent --no-audit --no-fund --ignore-scripts && touch .ready || $(MISSING)

# A broker of Kafka, only for tests/outputs/kafka: 43 MB of jars, where Maven is found; it runs on Java 17.
kafka: $(KAFKA)/.ready

$(KAFKA)/.ready: tests/outputs/kafka/pom.xml
	@mkdir -p $(@D)
	@echo "Fetching Kafka into $(@D) (43 MB) ..."
	@mvn -q -B -f $< org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(@D)/jars && touch $@ || $(MISSING)

# Prometheus' checker of rules, from Debian's package and without installing it (37 MB), only for the tests of deploy/observability.
promtool: $(PROMTOOL)/.ready

$(PROMTOOL)/.ready:
	@mkdir -p $(@D)
	@echo "Fetching promtool into $(@D) ..."
	@cd $(@D) && { apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } && dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool && rm prometheus_*.deb && touch .ready || $(MISSING)

# A client of the console's gRPC in Go, generated from api/dstream.proto, only for tests/console/grpc, where Go is found.
console-clients: $(CONSOLE)/.ready

$(CONSOLE)/.ready: api/dstream.proto tests/console/go/client.go tests/console/go/go.mod tests/console/go/go.sum | $(READY)
	@mkdir -p $(@D)/src
	@cp tests/console/go/client.go tests/console/go/go.mod tests/console/go/go.sum $(@D)/src
	@echo "Compiling a Go client into $(@D) ..."
	@cd $(@D)/src && GOBIN=$(CURDIR)/$(@D)/bin go install tool && PATH=$(CURDIR)/$(@D)/bin:$$PATH $(CURDIR)/$(BIN)/python -m grpc_tools.protoc --proto_path=$(CURDIR)/api --go_out=. --go-grpc_out=. dstream.proto && go build -o ../client . && touch ../.ready || $(MISSING)

# OpenTelemetry's own Collector with the parts that tests/pipeline/test_tracing.py needs, where Go is found; two minutes once.
collector: $(COLLECTOR)/.ready

$(COLLECTOR)/.ready: $(wildcard tests/worlds/otelcol/*)
	@mkdir -p $(@D)
	@echo "Compiling a collector of spans into $(@D) ..."
	@cd tests/worlds/otelcol && go build -o .cache/collector . && touch .cache/.ready || $(MISSING)

# Chromium, only for tests/console/page, where there is none: Debian's package with all that it needs, so this takes root.
chromium:
	@test -n "$$DSTREAM_TEST_CHROMIUM" || command -v chromium > /dev/null || command -v chromium-browser > /dev/null || { echo "Installing Chromium ..."; apt-get install -qq -y --no-install-recommends chromium > /dev/null || { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium > /dev/null; }; } || $(MISSING)

# The alert rules as Kubernetes takes them, from the file that Prometheus takes.
rules:
	@{ printf '%s\n' '# Generated from alerts.yaml by `make rules`: edit that file.' 'apiVersion: monitoring.coreos.com/v1' 'kind: PrometheusRule' 'metadata:' '  name: dstream' '  labels:' '    app.kubernetes.io/name: dstream' 'spec:'; sed 's/^./  &/' deploy/observability/alerts.yaml; } > deploy/observability/prometheusrule.yaml

# The description of api/dstream.proto that the console ships.
proto: setup
	$(BIN)/python -m grpc_tools.protoc --proto_path=api --descriptor_set_out=desk/console/grpc/generated/dstream.binpb api/dstream.proto

# The container images, with buildah, podman or docker; deploy/image/build lists the variables: BASE, TAG, REPOSITORY, ...
images:
	deploy/image/build

# Writes requirements.lock again: names, versions and hashes, never an address.
lock: setup
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 -o requirements.lock --quiet

clean:
	rm -rf $(VENV) $(FETCHED) $(DEBEZIUM) $(ASYNCAPI) $(AZURITE)/.cache $(KAFKA) $(NATS) $(PROMTOOL) $(CONSOLE) .mypy_cache .ruff_cache .pytest_cache
