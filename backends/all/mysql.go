//go:build !no_mysql

package all

import "flockd/backends/mysql"

func init() {
	openers["mysql"] = mysql.Open
	openers["mysql+unix"] = mysql.Open
	schemas["mysql"] = mysql.Schema
}
