//go:build !no_etcd

package all

import "flockd/backends/etcd"

func init() {
	openers["etcd"] = etcd.Open
	openers["etcds"] = etcd.Open
}
