//go:build !no_postgres

package all

import "flockd/backends/postgres"

func init() {
	for _, scheme := range []string{"postgres", "postgresql"} {
		openers[scheme], finders[scheme] = postgres.Open, postgres.Find
	}
	schemas["postgres"] = postgres.Schema
}
