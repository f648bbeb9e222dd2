package postgres

import (
	"cmp"
	"context"
	_ "embed" // the schema
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"flockd/backends"
)

var (
	//go:embed head.sql
	head string
	//go:embed schema.sql
	tables string
	//go:embed line.sql
	lineSteps string
	//go:embed acquire.sql
	acquireStep string
	//go:embed steps.sql
	otherSteps string
	//go:embed ledger.sql
	ledgerSteps string
)

// schema makes all that isn't there yet.
func schema(prefix string) string {
	return strings.Join([]string{strings.ReplaceAll(head, `"flockd"`, `"`+prefix+`"`), tables, lineSteps, acquireStep, otherSteps, ledgerSteps}, "\n")
}

// Schema is a script that makes the schema and lets a user work with it. To run it again
// changes nothing.
func Schema(prefix, user string) (string, error) {
	if err := checkPrefix(prefix); err != nil {
		return "", err
	}
	return fmt.Sprintf("-- psql -v ON_ERROR_STOP=1 -f FILE DATABASE\nBEGIN;\n%s\n%sCOMMIT;\n", schema(prefix), grants(prefix, cmp.Or(user, "flockd"))), nil
}

func grants(prefix, user string) string {
	user = `"` + strings.ReplaceAll(user, `"`, `""`) + `"`
	return fmt.Sprintf(`-- What flockd's user needs.
GRANT USAGE ON SCHEMA "%[1]s" TO %[2]s;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "%[1]s" TO %[2]s;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "%[1]s" TO %[2]s;
`, prefix, user)
}

// unless ends the transaction if the schema has been made meanwhile: all of it is made at once,
// so that one of its functions stands for the others.
const unless = `SELECT pg_advisory_xact_lock(7453010341209); DO $$ BEGIN
	IF to_regprocedure('"%s".sweep_1(integer)') IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '%s', MESSAGE = 'flockd: it is made';
	END IF;
END $$; `

// make makes the schema, unless somebody else does so first.
func (s *server) make(ctx context.Context) error {
	if s.finds {
		return &backends.UnusedError{Address: s.database, Why: "no flockd has used it"}
	}
	l, err := s.pool.take(ctx)
	if err != nil {
		return s.classify(err)
	}
	defer s.pool.give(l)
	_, err = l.Exec(ctx, s.begin(ctx)+fmt.Sprintf(unless, s.prefix, alreadyMade)+schema(s.prefix)).ReadAll()
	var said *pgconn.PgError
	if errors.As(err, &said) && said.Code == alreadyMade {
		return nil
	}
	return s.unmade(err)
}
