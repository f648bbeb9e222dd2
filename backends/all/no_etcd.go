//go:build no_etcd

package all

func init() { missing["etcd"], missing["etcds"] = true, true }
