//go:build linux

package failover

import (
	"net"
	"strings"

	"flockd/backends/backendtest/servers"
)

// store is where the hosts campaign.
type store struct {
	name  string
	start func(l *lab) (url string) // starts its servers, on hosts of l's network
	daily []fault                   // those inflicted in each run of the tests, the others where figures are wanted
	rare  []fault
}

var stores = []store{
	{"redis", startRedis, []fault{terminated, frozen, cutOff}, []fault{asked, killed, frozenHost}},
	{"postgres", startPostgres, []fault{killed, frozenHost, cutOff}, []fault{terminated, asked, frozen}},
	{"mariadb", startMariaDB, []fault{asked, cutOff}, []fault{terminated, killed, frozen, frozenHost}},
	{"etcd", startEtcd, []fault{cutOff, cutOffTogether}, []fault{terminated, asked, killed, frozen, frozenHost}},
}

// startRedis has a primary and a replica, each on a host of its own. No hold counts that the
// replica hasn't got.
func startRedis(l *lab) string {
	primary := l.net.host("db1").Redis(l)
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica := l.net.host("db2").Redis(l, "--replicaof", host+" "+port)
	l.until("a replica that follows", func() bool { return strings.Contains(replica.Log(), "MASTER <-> REPLICA sync: Finished") })
	return "redis://" + primary.Addr + "?min-replicas=1"
}

func startPostgres(l *lab) string {
	return "postgres://" + servers.PostgresUser + ":" + servers.PostgresPassword + "@" + l.net.host("db").Postgres(l).Addr + "/" + servers.PostgresDatabase
}

func startMariaDB(l *lab) string {
	return "mysql://" + servers.MariaDBUser + ":" + servers.MariaDBPassword + "@" + l.net.host("db").MariaDB(l).Addr + "/" + servers.MariaDBDatabase
}

// startEtcd has a member on each host that campaigns.
func startEtcd(l *lab) string {
	var hosts []servers.Host
	for _, h := range l.hosts {
		hosts = append(hosts, h.Host)
	}
	l.cluster = servers.EtcdOn(l, hosts)
	return "etcd://" + strings.Join(l.cluster.Endpoints(), ",")
}
