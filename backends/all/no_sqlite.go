//go:build !cgo || !linux || no_sqlite

package all

func init() { missing["sqlite"] = true }
