//go:build cgo && linux && !no_sqlite

package all

import "flockd/backends/sqlite"

func init() {
	openers["sqlite"], finders["sqlite"] = sqlite.Open, sqlite.Find
	schemas["sqlite"] = sqlite.Schema
}
