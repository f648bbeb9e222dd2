package postgres

import (
	"cmp"
	"context"
	_ "embed" // the schema
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"flockd/backends/stored"
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
	//go:embed register.sql
	registerSteps string
)

// schema makes all that isn't there yet.
func schema(prefix string) string {
	return script(prefix, tables, lineSteps, acquireStep, otherSteps, ledgerSteps, registerSteps)
}

// script makes parts of the schema.
func script(prefix string, parts ...string) string {
	return strings.ReplaceAll(head, `"flockd"`, `"`+prefix+`"`) + "\n" + strings.Join(parts, "\n")
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

// unless ends the transaction if a function has been made meanwhile: all of its part is made at
// once, so that it stands for the others.
const unless = `SELECT pg_advisory_xact_lock(7453010341209); DO $$ BEGIN
	IF to_regprocedure('"%s".%s') IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '%s', MESSAGE = 'flockd: it is made';
	END IF;
END $$; `

// make makes the schema, unless somebody else does so first. To one without a register it adds
// that for a step of the register alone: no other step needs the right to.
func (s *server) make(ctx context.Context, step stored.Step) error {
	if s.finds {
		return stored.Unused(s.database, step)
	}
	l, err := s.pool.take(ctx)
	if err != nil {
		return s.classify(err)
	}
	defer s.pool.give(l)
	made, err := s.add(ctx, l, "schema "+s.prefix, "sweep_1(integer)", schema(s.prefix))
	if made || err != nil || !step.OfRegister() {
		return err
	}
	_, err = s.add(ctx, l, "register in its schema "+s.prefix, "admit_1(bytea, integer, bigint, boolean)", script(s.prefix, registerSteps))
	return err
}

// add makes a part of the schema, if that function of it isn't there.
func (s *server) add(ctx context.Context, l *link, what, function, script string) (made bool, err error) {
	_, err = l.Exec(ctx, s.begin(ctx)+fmt.Sprintf(unless, s.prefix, function, alreadyMade)+script).ReadAll()
	var said *pgconn.PgError
	if errors.As(err, &said) && said.Code == alreadyMade {
		return false, nil
	}
	return err == nil, s.unmade(what, err)
}
