//go:build linux

package torture

import (
	"context"
	"path/filepath"
	"testing"

	"flockd/backends/backendtest/servers"
)

// ground is a store that an election is held on. Each seat has a way of its own to it.
type ground struct {
	*store
	links []*servers.TCPProxy // on the way of each seat; nil: there is nothing between
	halts []halt
}

// halt is how a store gives no answer any more, to anybody, until it is put right.
type halt struct {
	name  string
	apply func(ctx context.Context) (right func() error, _ error)
}

// grounds are the stores of the elections.
var grounds = []struct {
	name string
	make func(t testing.TB, seats int) *ground
}{
	{"sqlite", sqliteGround},
	{"redis", redisGround},
	{"etcd", func(t testing.TB, seats int) *ground {
		e := servers.Etcd(t, servers.Current)
		return serverGround(t, e, seats, func(addr string) string { return etcdURL(addr) })
	}},
	{"postgres", func(t testing.TB, seats int) *ground {
		p := servers.Postgres(t)
		return serverGround(t, p, seats, func(addr string) string { return postgresURL(addr) })
	}},
	{"mysql", func(t testing.TB, seats int) *ground {
		p := servers.MariaDB(t)
		return serverGround(t, p, seats, func(addr string) string { return mysqlURL(addr) })
	}},
}

func sqliteGround(t testing.TB, seats int) *ground {
	file := filepath.Join(t.TempDir(), "flockd.db")
	s := &store{direct: "sqlite://" + file}
	for range seats {
		s.ways = append(s.ways, s.direct)
	}
	lock := halt{"lock the file", func(ctx context.Context) (func() error, error) { return lockNow(ctx, file) }}
	return &ground{store: s, halts: []halt{lock}}
}

func redisGround(t testing.TB, seats int) *ground {
	r := servers.Redis(t, "--appendonly", "yes", "--appendfsync", "always") // it forgets nothing
	return serverGround(t, r, seats, redisURL)
}

func serverGround(t testing.TB, p *servers.Process, seats int, url func(addr string) string) *ground {
	g := &ground{store: &store{direct: url(p.Addr)}}
	for range seats {
		link := servers.Proxy(t, p.Addr)
		g.links, g.ways = append(g.links, link), append(g.ways, url(link.Addr))
	}
	g.halts = []halt{
		{"freeze server", func(context.Context) (func() error, error) {
			p.Freeze()
			return func() error { p.Thaw(); return nil }, nil
		}},
		{"kill server", func(context.Context) (func() error, error) {
			p.Kill()
			return func() error { p.Start(); return nil }, nil
		}},
	}
	return g
}
