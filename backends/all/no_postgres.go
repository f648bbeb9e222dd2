//go:build no_postgres

package all

func init() { missing["postgres"], missing["postgresql"] = true, true }
