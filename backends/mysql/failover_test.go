package mysql

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
)

// A replica is passed by, or refused where the URL names no other, whether or not its
// read_only binds the user; and is the next primary once it takes writes.
func TestReplica(t *testing.T) {
	t.Parallel()
	pair := servers.ReplicatedMariaDB(t)
	primary, replica := urlOf(pair.Primary), urlOf(pair.Replica)
	lease := acquire(t, open(t, primary), request("a"))
	pair.Await()
	for _, url := range []string{replica, "mysql://root@" + pair.Replica.Addr + "/flockd"} {
		s := open(t, url)
		_, err := s.Acquire(t.Context(), request("a"))
		wantRefused(t, err, pair.Replica.Addr+" takes no writes")
		_, err = s.Inspect(t.Context(), "a")
		wantRefused(t, err, pair.Replica.Addr+" takes no writes")
		_, err = s.Renew(t.Context(), lease)
		wantRefused(t, err, pair.Replica.Addr+" takes no writes")
		wantRefused(t, backendtest.RegisterOf(t, s).Admit(t.Context(), "a", 7), pair.Replica.Addr+" takes no writes")
		_, err = backendtest.RegisterOf(t, s).Highest(t.Context(), "a")
		wantRefused(t, err, pair.Replica.Addr+" takes no writes")
	}
	both := open(t, strings.Replace(replica, pair.Replica.Addr, pair.Replica.Addr+","+pair.Primary.Addr, 1))
	renew(t, both, lease)
	pair.Await()
	says(t, pair.Primary, "SET GLOBAL read_only = 1")
	says(t, pair.Replica, "SET GLOBAL read_only = 0")
	if _, err := both.Renew(t.Context(), lease); err != nil {
		wantTrouble(t, err, "takes no writes now") // it may have been the connection from before
	}
	renew(t, both, lease)
}

// Half of the hosts are dead, one way or the other.
func TestDeadHosts(t *testing.T) {
	t.Parallel()
	frozen, killed, alive := servers.MariaDB(t), servers.MariaDB(t), servers.MariaDB(t)
	frozen.Freeze()
	killed.Kill()
	list := strings.Join([]string{frozen.Addr, killed.Addr, "nowhere.invalid", alive.Addr}, ",")
	s := open(t, strings.Replace(urlOf(alive), alive.Addr, list, 1)+"?timeout=20s")
	backendtest.Everything(t, s)
	alive.Kill()
	frozen.Thaw()
	frozen.Kill()
	_, err := s.Acquire(t.Context(), request("b"))
	for _, text := range []string{frozen.Addr + ": connection refused", "nowhere.invalid:3306: no such host", alive.Addr + ": connection refused"} {
		wantTrouble(t, err, text)
	}
	alive.Start()
	acquire(t, s, request("b"))
}

// A server that stands still costs a request its time, no more, over TLS too.
func TestFrozen(t *testing.T) {
	t.Parallel()
	ca := servers.CA(t)
	p := servers.MariaDB(t, ca.MariaDBArgs()...)
	url := urlOf(p) + "?tls=true&cacert=" + ca.File
	s := open(t, url)
	lease := acquire(t, s, request("a"))
	p.Freeze()
	for _, s := range []backends.Backend{s, open(t, url)} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := s.Renew(ctx, lease)
		cancel()
		wantTrouble(t, err, p.Addr+": no answer in time")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v isn't an exceeded deadline", err)
		}
	}
	p.Thaw()
	renew(t, s, lease)
	p.Kill()
	_, err := s.Renew(t.Context(), lease)
	wantTrouble(t, err, p.Addr)
	p.Start()
	renew(t, s, lease)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a, stranger := servers.CA(t), servers.CA(t)
	p := servers.MariaDB(t, append(a.MariaDBArgs(), "--bind-address=0.0.0.0")...)
	url := urlOf(p)
	backendtest.Everything(t, open(t, url+"?cacert="+a.File))
	backendtest.Everything(t, open(t, url+"?tls=skip-verify"))
	backendtest.Everything(t, open(t, url+"?tls=preferred"))
	_, port, _ := net.SplitHostPort(p.Addr)
	for url, want := range map[string][2]string{
		url: {"refuses the user or password", "?tls=true"},
		url + "?tls=true&cacert=" + stranger.File:                                         {"unknown authority", "?cacert="},
		strings.Replace(url, p.Addr, "127.0.0.2:"+port, 1) + "?tls=true&cacert=" + a.File: {"127.0.0.2", "one of the names"},
	} {
		_, err := open(t, url).Acquire(t.Context(), request("a"))
		wantRefused(t, err, want[0])
		wantHint(t, err, want[1])
	}
}

// What isn't there, or speaks something else, is said in plain words.
func TestNoServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			defer conn.Close()
		}
	}()
	strange := listener.Addr().String()
	for url, text := range map[string]string{
		"mysql://u:hunter2@" + strange + "/d?timeout=2s": "mysql://" + strange + ": ",
		"mysql://u:hunter2@nowhere.invalid/d":            "mysql://nowhere.invalid:3306: no such host",
		"mysql+unix://u:hunter2@/nowhere/s?db=d":         "mysql+unix:///nowhere/s: no such file or directory",
	} {
		_, err := open(t, url).Acquire(t.Context(), request("a"))
		wantTrouble(t, err, text)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
	}
}

// A replica has what the primary has, however that writes its binary log.
func TestReplicaIsTheSame(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"STATEMENT", "ROW"} {
		pair := servers.ReplicatedMariaDB(t, "--binlog-format="+format)
		s := open(t, urlOf(pair.Primary))
		backendtest.Everything(t, s)
		for _, mode := range []backends.Mode{backends.Exclusive, backends.Shared, backends.Slots} {
			_, handOver := backendtest.HandOver(t, s, mode, 5)
			handOver(s)
		}
		pair.Await()
		const sum = "USE flockd; CHECKSUM TABLE flockd_keys, flockd_claims, flockd_ended, flockd_runs, flockd_ledger, flockd_fences"
		if a, b := says(t, pair.Primary, sum), says(t, pair.Replica, sum); a != b {
			t.Errorf("%s: the primary has\n%s\nthe replica\n%s", format, a, b)
		}
		if log := pair.Primary.Log(); strings.Contains(log, "Unsafe statement") {
			t.Errorf("%s: it warns: %s", format, log)
		}
	}
}
