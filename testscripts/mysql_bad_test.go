//go:build linux

package testscripts

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"flockd/backends/backendtest/servers"
)

// odd is a password that has to be escaped in a URL, in SQL and in a shell.
const odd = secret + `@#!/%?:'"\ $`

// asUser is the URL of a server for a user that may do in the database what is granted,
// and its password.
func (r *rig) asUser(p *servers.Process, name, granted string) string {
	r.Helper()
	servers.MariaDBSays(r, p, fmt.Sprintf("SET sql_mode = 'NO_BACKSLASH_ESCAPES'; CREATE USER %s@'%%' IDENTIFIED BY '%s'; %s",
		name, strings.ReplaceAll(odd, `'`, `''`), granted))
	return fmt.Sprintf("mysql://%s:%s@%s/%s", name, url.PathEscape(odd), p.Addr, servers.MariaDBDatabase)
}

// What is wrong with a server is said in a line, and no password with it.
func TestBadMySQL(t *testing.T) {
	t.Parallel()
	r := newFolder(t)
	plain := servers.MariaDB(t)
	at := "mysql://root@" + plain.Addr
	r.refused(at+"/absent", 69, `has no database "absent"`)
	r.refused(r.asUser(plain, "nothing", ""), 69, "lacks a right")
	reader := r.asUser(plain, "reader", "GRANT SELECT ON flockd.* TO reader")
	r.refused(reader, 69, "lacks a right") // nor may it make them
	r.run(r.asUser(plain, "owner", "GRANT ALL ON flockd.* TO owner"), "k", "--", "true").ends(0)
	r.refused(reader, 69, "lacks a right")
	r.refused("mysql://owner:"+secret+"x@"+plain.Addr+"/flockd", 69, "refuses the user or password")
	r.refused(at+"/flockd?tls=true", 69, "TLS")
	r.refused("mysql://root@no-such-host.invalid/flockd", 69, "no-such-host.invalid")
	servers.MariaDBSays(t, plain, "CREATE TABLE flockd.other_keys (a INT)")
	r.refused(at+"/flockd?prefix=other", 69, "other_keys is none of flockd's")
	servers.MariaDBSays(t, plain, "UPDATE flockd.flockd_keys SET v = 99")
	r.refused(at+"/flockd", 69, "newer flockd")
	plain.Kill()
	r.refused(at+"/flockd", 69, "connection refused")
}

func TestBadMySQLOfOtherKinds(t *testing.T) {
	t.Parallel()
	r := newFolder(t)
	ca := servers.CA(t)
	tls := servers.MariaDB(t, ca.MariaDBArgs()...)
	old := servers.MariaDB(t, "--version=10.2.44-MariaDB")
	r.refused(mysql.url(old.Addr), 69, "10.2.44")
	r.refused(mysql.url(tls.Addr), 69, "refuses the user or password") // which is how it puts it
	r.refused(mysql.url(tls.Addr)+"?tls=true", 69, "certificate")
	r.run(mysql.url(tls.Addr)+"?tls=true&cacert="+ca.File, "k", "--", "true").ends(0)
	old.Kill()
	r.run(mysql.url(old.Addr, tls.Addr)+"?tls=true&cacert="+ca.File, "k", "--", "true").ends(0)
}
