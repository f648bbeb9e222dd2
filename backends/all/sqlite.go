//go:build cgo && linux && !no_sqlite

package all

import "flockd/backends/sqlite"

func init() { openers["sqlite"] = sqlite.Open }
