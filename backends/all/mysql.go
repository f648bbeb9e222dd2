//go:build !no_mysql

package all

import "flockd/backends/mysql"

func init() {
	for _, scheme := range []string{"mysql", "mysql+unix"} {
		openers[scheme], finders[scheme] = mysql.Open, mysql.Find
	}
	schemas["mysql"] = mysql.Schema
}
