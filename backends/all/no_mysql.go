//go:build no_mysql

package all

func init() { missing["mysql"], missing["mysql+unix"] = true, true }
