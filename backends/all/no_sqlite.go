//go:build !cgo || no_sqlite

package all

func init() { missing["sqlite"] = true }
