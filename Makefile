# flockd needs Go and, for SQLite, a C compiler. Each target says which package it
# lacks, and as root installs it.

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Static, since the dynamic linker would take a tenth of a short run's time; and so
# without the parts of the C library that load others. grpcnotrace leaves out the pages
# that gRPC can serve about itself, and with them html/template, for which the linker
# keeps every exported method: 10 of 25 MB, and as much of a run's memory.
TAGS    := osusergo,netgo,sqlite_omit_load_extension,grpcnotrace
LDFLAGS := -s -w -X flockd/cmd.version=$(VERSION) -linkmode=external -extldflags=-static
FLOCKD  := flockd
PREFIX  := /usr/local
TESTED  := ./...

export CGO_ENABLED := 1

.PHONY: build demo demo-zombie test torture torture-elect failover docs check bench install clean

build: ## the program, as FLOCKD
	@sh testscripts/need.sh cc
	go build -trimpath -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o '$(FLOCKD)' .

demo: build ## three contenders for one key
	@sh testscripts/demo.sh ./flockd

demo-zombie: build ## a holder that is frozen past its lease, and writes
	@sh testscripts/need.sh sqlite3
	@sh testscripts/demo-zombie.sh ./flockd

test: ## all tests; as root, since they mount small file systems and become other users
	@sh testscripts/need.sh cc ip unshare nsenter setpriv mount su sudo ionice chrt xargs ps strace \
		bash dash zsh less vi ssh sshd cron atd systemctl dbus-daemon sqlite3 curl python3 redis-server redis-cli etcd etcdctl postgres psql pgbouncer mariadbd mariadb
	go test -p 1 -timeout 15m $(TESTFLAGS) $(TESTED) # one package at a time: their servers and storms need the machine

torture: ## the storms of testscripts/torture for 10 minutes a store, all at once
	@sh testscripts/need.sh cc redis-server etcd etcdctl postgres psql pgbouncer mariadbd mariadb
	FLOCKD_TORTURE=$${FLOCKD_TORTURE:-10m} go test -timeout 60m -count=1 -v $(TESTFLAGS) ./testscripts/torture

torture-elect: ## 1000 changes of leader, or FLOCKD_ELECTIONS, by every means, over all stores at once
	@sh testscripts/need.sh cc redis-server etcd postgres mariadbd
	FLOCKD_ELECTIONS=$${FLOCKD_ELECTIONS:-1000} go test -timeout 120m -count=1 -v -run 'TestElections$$' $(TESTFLAGS) ./testscripts/torture

failover: ## each fault of testscripts/failover 10 times on each store, and a table of how long nobody led
	@sh testscripts/need.sh cc ip redis-server redis-cli postgres mariadbd mariadb
	FLOCKD_FAILOVER=$${FLOCKD_FAILOVER:-10} go test -timeout 60m -count=1 -v $(TESTFLAGS) ./testscripts/failover

docs: ## man/ and completions/ from the commands
	go test ./cmd -run TestGenerated -update

# For other systems all is compiled to be looked at, not to run. They differ in what is below the
# drivers, so that one of them is enough for those.
FOREIGN := -gcflags='all=-N -l'
WITHOUT := no_sqlite,no_redis,no_etcd,no_postgres,no_mysql

check: ## what else CI looks at
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	CGO_ENABLED=0 go vet ./...
	GOFLAGS= GOOS=darwin CGO_ENABLED=0 go vet $(FOREIGN) ./...
	GOOS=freebsd CGO_ENABLED=0 go vet $(FOREIGN) -tags $(WITHOUT) $$(GOOS=freebsd CGO_ENABLED=0 go list -deps -tags $(WITHOUT) . | grep '^flockd')
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

bench: build ## median ratios beside flock(1) and etcdctl lock; 500 starts in a second; 10000 keys of one process
	@sh testscripts/need.sh flock redis-server etcd etcdctl postgres mariadbd mariadb
	for store in sqlite redis etcd postgres mysql; do \
		FLOCKD_STARTS=500 go test ./testscripts -run "TestStartsAtOnce/.*/$$store" -count=1 -v || exit; \
	done
	go test ./testscripts/bench -run '^$$' -bench . -benchtime 1x -timeout 30m -flockd '$(CURDIR)/flockd'

install: ## program, man pages, docs and completions below PREFIX; what "make build" has built is taken as it is
	[ -x $(FLOCKD) ] || $(MAKE) build
	install -Dm755 $(FLOCKD) $(DESTDIR)$(PREFIX)/bin/flockd
	for page in man/*.[0-9]; do install -Dm644 "$$page" "$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/}" || exit; done
	for page in docs/*.md; do install -Dm644 "$$page" "$(DESTDIR)$(PREFIX)/share/doc/flockd/$${page##*/}" || exit; done
	install -Dm644 completions/flockd.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/flockd
	install -Dm644 completions/_flockd $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_flockd
	install -Dm644 completions/flockd.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/flockd.fish

clean:
	rm -f flockd
