package mysql

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"flockd/backends"
	"flockd/backends/stored"
)

//go:embed *.sql
var files embed.FS

// schema is all that is to be made, the tables first.
var schema = sync.OnceValue(func() string {
	var b strings.Builder
	for _, name := range []string{"schema", "common", "line", "acquire", "hold", "ledger", "inspect", "sweep", "register"} {
		text, err := files.ReadFile(name + ".sql")
		if err != nil {
			panic("mysql: " + err.Error())
		}
		b.Write(text)
	}
	return b.String()
})

// version is the protocol's, which the procedures have in their names. It is raised with
// every change of what a procedure does, so that clients of two versions can work on the
// same tables.
const version = "1"

// delimiter ends each statement of the schema, for they have semicolons in them.
const delimiter = "\n//\n"

// again is for the procedures what IF NOT EXISTS is for tables. MySQL knows it from 8.0.29 on.
const again = "CREATE PROCEDURE /*!80029 IF NOT EXISTS */ /*M! IF NOT EXISTS */ "

// statements make the tables and the procedures.
func (n names) statements() []string {
	_, text, _ := strings.Cut(n.text(), "DELIMITER //\n")
	return strings.Split(strings.TrimSuffix(text, delimiter), delimiter)
}

// text is the schema with the prefix in its names.
func (n names) text() string {
	text := strings.ReplaceAll(schema(), "flockd_", string(n)+"_")
	return strings.ReplaceAll(text, "CREATE PROCEDURE ", again)
}

// The beginnings of the statements that make something, in the schema.
const (
	makesTable     = "CREATE TABLE IF NOT EXISTS flockd"
	makesProcedure = "CREATE PROCEDURE flockd"
)

func (n names) tables() []string { return n.made(makesTable) }

func (n names) procedures() []string { return n.made(makesProcedure) }

// made are the names of what is made by statements that begin so.
func (n names) made(beginning string) (names []string) {
	for line := range strings.Lines(schema()) {
		if name, ok := strings.CutPrefix(line, beginning); ok {
			names = append(names, string(n)+name[:strings.IndexAny(name, " (")])
		}
	}
	return names
}

// onlyExisting keeps MariaDB from making the user of a GRANT, from every host and without a
// password, where there is none of that name and host. MySQL 8 never does that, and has no
// such mode.
const onlyExisting = "SET SESSION sql_mode = IF(VERSION() LIKE '%MariaDB%' OR VERSION() LIKE '5.%', 'NO_AUTO_CREATE_USER', '')" + delimiter

// Schema is what makes the tables and the procedures, and lets a user work with them: NAME,
// who may come from any host, or NAME@HOST. It is for the command mysql or mariadb.
func Schema(prefix, user string) (string, error) {
	n, err := checkPrefix(prefix)
	if err != nil {
		return "", err
	}
	grantee, err := account(cmp.Or(user, "flockd"))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(n.text())
	b.WriteString(onlyExisting)
	for _, table := range n.tables() {
		fmt.Fprintf(&b, "GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s%s", table, grantee, delimiter)
	}
	for _, procedure := range n.procedures() {
		fmt.Fprintf(&b, "GRANT EXECUTE ON PROCEDURE %s TO %s%s", procedure, grantee, delimiter)
	}
	return b.String(), nil
}

// account is the name of a user in SQL.
func account(user string) (string, error) {
	name, host := user, "%"
	if at := strings.LastIndexByte(user, '@'); at >= 0 {
		name, host = user[:at], user[at+1:]
	}
	if strings.ContainsAny(user, "'\"`\\\n") {
		return "", backends.BadURL("the user %q has a quote or a backslash", user)
	}
	return "'" + name + "'@'" + host + "'", nil
}

// names makes the names of tables and procedures.
type names string // prefix

func checkPrefix(prefix string) (names, error) {
	if !stored.Plain(prefix) {
		return "", backends.BadURL("the prefix %q: for MySQL it is up to 21 small letters, digits and _, and begins with no digit", prefix)
	}
	return names(prefix), nil
}

func (n names) procedure(step stored.Step) string {
	return string(n) + "_" + string(step) + "_" + version
}

// call is the statement of a step. Its last argument is for how many seconds a lock may be
// waited for: nobody hears of what comes later.
func (s *server) call(ctx context.Context, step stored.Step, args []any) string {
	var b strings.Builder
	b.WriteString("CALL " + s.prefix.procedure(step) + "(")
	for _, arg := range args {
		b.WriteString(literal(arg) + ", ")
	}
	b.WriteString(strconv.Itoa(patience(ctx)) + ")")
	return b.String()
}

// patience is the whole seconds that ctx lasts, rounded up.
func patience(ctx context.Context) int {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 50 // as MySQL has it
	}
	return max(1, int(math.Ceil(time.Until(deadline).Seconds())))
}

// literal is a value in SQL, which no mode and no character set of a session reads
// otherwise.
func literal(arg any) string {
	switch v := arg.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		if v {
			return "1"
		}
		return "0"
	case string:
		return fmt.Sprintf("_ascii X'%X'", v)
	case []byte:
		return fmt.Sprintf("X'%X'", v)
	}
	panic(fmt.Sprintf("mysql: an argument of type %T", arg))
}

// lines are those of a row.
func lines(row []byte) [][]byte { return bytes.Split(row, []byte("\n")) }
