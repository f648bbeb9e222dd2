//go:build linux

package testscripts

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"flockd/backends/backendtest/servers"
)

// secret must never be seen.
const secret = "s3cr3t-pa55"

// refused runs a command with the store at url, which must end with status, say text in
// one line, and start nothing.
func (r *rig) refused(url string, status int, text string) {
	r.Helper()
	j := r.run(url, "k", "--", "touch", "ran").ends(status)
	lines := 0
	for line := range strings.Lines(j.stderr.String()) {
		switch {
		case strings.HasPrefix(line, "flockd: hint: "):
		case strings.HasPrefix(line, "flockd: ") && strings.Contains(line, text):
			lines++
		default:
			r.Errorf("%s: unexpected line %q, want %q", url, line, text)
		}
	}
	if lines != 1 {
		r.Errorf("%s: %d lines say %q:\n%s", url, lines, text, j.stderr.String())
	}
	for _, jargon := range []string{secret, "rpc error", "goroutine", "transport:", "desc ="} {
		if strings.Contains(j.stderr.String(), jargon) {
			r.Errorf("%s: it says %q:\n%s", url, jargon, j.stderr.String())
		}
	}
	if r.exists("ran") {
		r.Errorf("%s: the command ran", url)
	}
}

// What is wrong with a URL is a usage error: no store is asked.
func TestBadURLs(t *testing.T) {
	t.Parallel()
	r := newFolder(t)
	absent := filepath.Join(r.dir, "absent.pem")
	for url, text := range map[string]string{
		"redis://h/x":              "is a number from 0",
		"redis://h/-1":             "is a number from 0",
		"redis://h1,h2":            "names one host",
		"redis://":                 "has no host",
		"redis://h:0":              "port from 1 to 65535",
		"redis://h?colour=red":     "knows no option",
		"redis://h?min-replicas=x": "is not a number",
		"redis://u:" + secret + "@h?password-file=/f":              "has a password and a ?password-file=",
		"redis://h?password-file=" + absent:                        "no such file",
		"redis+unix://h/p":                                         "by its absolute path",
		"rediss://h?cacert=" + absent:                              "no such file",
		"rediss://h?cert=" + absent:                                "go together",
		"etcd://":                                                  "no host",
		"etcd://h:x":                                               "can't be read",
		"etcd://h?colour=red":                                      "knows no option",
		"etcd://h/a?prefix=b":                                      "prefix",
		"etcds://h?cacert=" + absent:                               "no such file",
		"redis+sentinel://h/master":                                "no backend is called",
		"postgres://h/d?colour=red":                                "knows no option",
		"postgres://h:x/d":                                         "can't be read",
		"postgres://h:0/d":                                         "port from 1 to 65535",
		"postgres://h/d?prefix=a-b":                                "name of a schema",
		"postgres://h/d?sslmode=red":                               "sslmode",
		"postgres://h/d?target_session_attrs=standby":              "takes writes",
		"postgres://h/d?sslmode=verify-full&sslrootcert=" + absent: "no such file",
		"postgres://u:@#!/" + secret + "@h/d":                      "writes as %23",
		"postgres://u:@!/" + secret + "@h/d":                       "can't be read",
		"mysql://h":                                                "database",
		"mysql:///d":                                               "host",
		"mysql://h/d?colour=red":                                   "knows no option",
		"mysql://u@h/d?prefix=a-b":                                 "prefix",
		"mysql://u:" + secret + "@h/d?password-file=/f":            "has a password and a ?password-file=",
		"mysql://h/d?tls=maybe":                                    "tls",
		"mysql://h/d?cacert=" + absent:                             "no such file",
	} {
		r.refused(url, 64, text)
	}
}

func TestBadRedis(t *testing.T) {
	t.Parallel()
	r := newFolder(t)
	ca := servers.CA(t)
	locked := servers.Redis(t, "--requirepass", secret)
	plain := servers.Redis(t)
	tls := servers.Redis(t, ca.RedisArgs()...)
	full := servers.Redis(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	replica := servers.Redis(t, "--replicaof", "127.0.0.1", plain.Addr[strings.LastIndexByte(plain.Addr, ':')+1:])
	r.refused("redis://"+locked.Addr, 69, "wants a password")
	r.refused("redis://:"+secret+"x@"+locked.Addr, 69, "refuses the user or password")
	r.refused("redis://"+plain.Addr+"/99", 69, "has no database 99")
	r.refused("rediss://"+plain.Addr+"?timeout=1s", 69, "TLS")
	r.refused("redis://"+tls.Addr, 69, "TLS")
	r.refused("rediss://"+tls.Addr, 69, "certificate")
	r.refused("redis://"+full.Addr, 69, "out of memory")
	r.refused("redis://"+replica.Addr, 69, "replica")
	r.refused("redis://no-such-host.invalid", 69, "no-such-host.invalid")
	plain.Kill()
	r.refused("redis://"+plain.Addr, 69, "connection refused")
}

func TestBadEtcd(t *testing.T) {
	t.Parallel()
	r := newFolder(t)
	ca := servers.CA(t)
	plain := servers.Etcd(t, servers.Current)
	locked := servers.Etcd(t, servers.Current)
	tls := servers.Etcd(t, servers.Current, ca.EtcdArgs()...)
	r.etcdctl(locked, "user", "add", "root:"+secret)
	r.etcdctl(locked, "user", "grant-role", "root", "root")
	r.etcdctl(locked, "user", "add", "bob:"+secret)
	r.etcdctl(locked, "auth", "enable")
	r.etcdctl(plain, "put", "flockd/line/k/garbage", "x")
	r.refused("etcd://"+locked.Addr, 69, "user")
	r.refused("etcd://root:"+secret+"x@"+locked.Addr, 69, "password")
	r.refused("etcd://bob:"+secret+"@"+locked.Addr, 69, "right")
	r.refused("etcd://"+plain.Addr, 69, "none of flockd's")
	r.refused("etcds://"+plain.Addr+"?timeout=1s", 69, "TLS")
	r.refused("etcd://"+tls.Addr+"?timeout=1s", 69, "TLS")
	r.refused("etcds://"+tls.Addr+"?timeout=1s", 69, "certificate")
	r.refused("etcd://no-such-host.invalid", 69, "no-such-host.invalid")
	plain.Kill()
	r.refused("etcd://"+plain.Addr, 69, "connection refused")
}

func TestBadPostgres(t *testing.T) {
	t.Parallel()
	r := newFolder(t)
	ca := servers.CA(t)
	pair := servers.ReplicatedPostgres(t)
	tls := servers.Postgres(t, ca.PostgresSettings()...)
	plain, dead := pair.Primary, servers.Postgres(t)
	dead.Kill()
	servers.PostgresSays(t, plain, "CREATE ROLE bob LOGIN PASSWORD '"+secret+"@#!/'", "CREATE DATABASE other",
		"CREATE SCHEMA other AUTHORIZATION flockd", "CREATE TABLE other.claims (n int)")
	bob := "postgres://bob:" + secret + "%40%23%21%2F@" + plain.Addr
	r.run(postgres.url(dead.Addr, plain.Addr), "k", "--", "true").ends(0) // makes the schema
	r.refused("postgres://bob:"+secret+"@"+plain.Addr+"/flockd", 69, "refuses the user or password")
	r.refused("postgres://bob@"+plain.Addr+"/flockd", 69, "password")
	r.refused(bob+"/flockd", 69, "lacks a right")
	r.refused(bob+"/other", 69, "may not make it")
	r.refused(bob+"/none", 69, "does not exist")
	r.refused(postgres.url(plain.Addr)+"?prefix=other", 69, "another program's")
	r.refused(postgres.url(pair.Standby.Addr), 69, "standby")
	r.refused(postgres.url(dead.Addr, pair.Standby.Addr), 69, "standby")
	r.refused(postgres.url(plain.Addr)+"?sslmode=require", 69, "speaks no TLS")
	r.refused(postgres.url(tls.Addr)+"?sslmode=disable", 69, "no encryption")
	r.refused(postgres.url(tls.Addr)+"?sslmode=verify-full&sslrootcert="+servers.CA(t).File, 69, "certificate")
	r.run(postgres.url(tls.Addr)+"?sslmode=verify-full&sslrootcert="+ca.File, "k", "--", "true").ends(0)
	servers.PostgresSays(t, plain, "UPDATE flockd.keys SET v = 9")
	r.refused(postgres.url(plain.Addr), 69, "newer flockd")
	servers.PostgresSays(t, plain, "UPDATE flockd.about SET version = 9")
	r.refused(postgres.url(plain.Addr), 69, "newer flockd")
	r.refused("postgres://no-such-host.invalid/flockd", 69, "no-such-host.invalid")
	r.refused(postgres.url(dead.Addr), 69, "connection refused")
	r.refused("postgres://"+oldPostgres(t)+"/flockd", 69, "needs 12 or later")
}

// oldPostgres is where one is that says of itself that it is an old one, and no more.
func oldPostgres(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	const version = "server_version\x0011.22\x00"
	hello := "R\x00\x00\x00\x08\x00\x00\x00\x00" + "S\x00\x00\x00" + string(rune(len(version)+4)) + version + "Z\x00\x00\x00\x05I"
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go greet(conn, hello)
		}
	}()
	return l.Addr().String()
}

// greet says no to a client of PostgreSQL's that wants TLS, which takes eight bytes, and
// hello to one that doesn't.
func greet(conn net.Conn, hello string) {
	defer conn.Close()
	for {
		n, err := conn.Read(make([]byte, 4096))
		if err != nil {
			return
		}
		io.WriteString(conn, map[bool]string{true: "N", false: hello}[n == 8])
	}
}

// An etcd that has known faults is used, with a warning.
func TestOldEtcdIsWarnedOf(t *testing.T) {
	t.Parallel()
	r := newFolder(t)
	r.run("etcd://"+servers.Etcd(t, servers.Debian).Addr, "k", "--", "true").ends(0).says("and then let two run")
	j := r.run("etcd://"+servers.Etcd(t, servers.Current).Addr, "k", "--", "true").ends(0)
	if said := j.stderr.String(); said != "" {
		t.Errorf("a current one: %s", said)
	}
}
