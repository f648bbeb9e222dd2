//go:build cgo && !no_sqlite

package all

import "flockd/backends/sqlite"

func init() { openers["sqlite"] = sqlite.Open }
