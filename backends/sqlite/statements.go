//go:build cgo && linux

package sqlite

import (
	_ "embed"
	"strings"
)

//go:embed schema.sql
var schema string

//go:embed statements.sql
var statements string

// statement finds the one that a comment line "-- name: NAME" introduces.
func statement(name string) string {
	_, after, ok := strings.Cut(statements, "-- name: "+name+"\n")
	if !ok {
		panic("sqlite: no statement " + name)
	}
	text, _, _ := strings.Cut(after, "\n-- name: ")
	return text
}
