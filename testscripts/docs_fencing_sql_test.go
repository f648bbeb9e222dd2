//go:build linux

package testscripts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// heredocs are the statements that a script gives to a database's client.
func (b block) heredocs() (texts []string) {
	for _, found := range regexp.MustCompile(`(?ms)<<'END'\n(.*?)^END$`).FindAllStringSubmatch(b.text, -1) {
		texts = append(texts, found[1])
	}
	return texts
}

// connection is a session of a database.
type connection interface {
	// ask is the first field of a statement's first row, "" where there is none, and how many
	// rows it has changed.
	ask(statement string) (field string, changed int64, err error)
}

// sqlSession is one by way of a driver.
type sqlSession struct{ *sql.Conn }

func (s sqlSession) ask(statement string) (field string, changed int64, err error) {
	ctx := context.Background()
	if !answers(statement) {
		done, err := s.ExecContext(ctx, statement)
		if err == nil {
			changed, err = done.RowsAffected()
		}
		return "", changed, err
	}
	err = s.QueryRowContext(ctx, statement).Scan(&field)
	if errors.Is(err, sql.ErrNoRows) {
		return "", 0, nil
	}
	return field, 1, err
}

// answers tells the statements that have rows.
func answers(statement string) bool {
	return strings.HasPrefix(statement, "SELECT") || strings.Contains(statement, "RETURNING")
}

// postgresSession is one as libpq's programs have it.
type postgresSession struct{ *pgconn.PgConn }

func (s postgresSession) ask(statement string) (field string, changed int64, err error) {
	results, err := s.Exec(context.Background(), statement).ReadAll()
	if err != nil || len(results) == 0 {
		return "", 0, err
	}
	last := results[len(results)-1]
	if len(last.Rows) > 0 {
		field = string(last.Rows[0][0])
	}
	return field, last.CommandTag.RowsAffected(), nil
}

// sqlSink adds by the statements of a recipe.
type sqlSink struct {
	connection
	reads, adds string
}

func (s sqlSink) begin(token int64) (int64, error) {
	return s.say(s.reads, "token", token)
}

func (s sqlSink) write(token, number int64) error {
	_, err := s.say(s.adds, "token", token, "new", number)
	return err
}

// say has the statements done, once more where the server chose them as a deadlock's victim.
func (s sqlSink) say(text string, variables ...any) (number int64, err error) {
	for again := true; again; again = err != nil && strings.Contains(err.Error(), "Deadlock") {
		number, err = s.try(text, variables...)
	}
	return number, err
}

// try has the statements done, up to the first that fails, or that should answer and doesn't:
// that is how a recipe says that it is stale. The number is what the last one answers.
func (s sqlSink) try(text string, variables ...any) (number int64, err error) {
	for _, statement := range statements(text, variables...) {
		field, _, err := s.ask(statement)
		if err == nil && field == "" && answers(statement) {
			err = errStale
		}
		if err == nil && field != "" {
			number, err = strconv.ParseInt(field, 10, 64)
		}
		if err != nil {
			s.ask("ROLLBACK")
			return 0, staleOr(err)
		}
	}
	return number, nil
}

// statements of a text. Variables, which are ":name", ":'name'" or "@name" in it, are
// followed by their values.
func statements(text string, variables ...any) []string {
	for i := 0; i < len(variables); i += 2 {
		name := regexp.MustCompile(fmt.Sprintf(`:'%[1]s'|[:@]%[1]s\b`, variables[i]))
		text = name.ReplaceAllString(text, fmt.Sprint(variables[i+1]))
	}
	return strings.Split(strings.TrimSuffix(strings.TrimSpace(text), ";"), ";\n")
}

func staleOr(err error) error {
	if strings.Contains(err.Error(), "stale token") {
		return fmt.Errorf("%w: %w", errStale, err)
	}
	return err
}

// sinks opens one for each client of a contest.
func (d *database) sinks(t *testing.T, w fencedWriter) func() sink {
	t.Helper()
	reads, adds := w.statements(t)
	return func() sink { return sqlSink{d.connect(), reads, adds} }
}

// connects opens sessions by way of a driver.
func connects(t *testing.T, driver, source string) func() connection {
	db, err := sql.Open(driver, source)
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return func() connection {
		conn, err := db.Conn(t.Context())
		must(t, err)
		return sqlSession{conn}
	}
}
