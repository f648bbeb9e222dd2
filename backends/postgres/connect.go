package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"flockd/backends"
)

const (
	// oldest is the release that has all that the functions need.
	oldest = 12

	// farewell is how long closing a connection may take.
	farewell = 100 * time.Millisecond
)

// connect finds a host that takes writes. Each one is given its share of the time that is left,
// so that one which doesn't answer leaves some for the next.
func (s *server) connect(ctx context.Context) (*link, error) {
	var failures []error
	for i, host := range s.hosts {
		l, err := s.dial(ctx, host, len(s.hosts)-i)
		if err == nil {
			return l, nil
		}
		err = s.unreachable(host, err)
		if errors.Is(err, errAccess) { // the next one would say the same
			return nil, err
		}
		failures = append(failures, err)
	}
	return nil, s.nowhere(failures)
}

func (s *server) dial(ctx context.Context, host *pgconn.Config, left int) (*link, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	l := &link{}
	config := *host
	config.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { l.rang = true }
	config.OnNotice = func(_ *pgconn.PgConn, said *pgconn.Notice) { l.alone = l.alone || said.Routine == forsaken }
	config.ValidateConnect = s.fit
	conn, err := pgconn.ConnectConfig(ctx, &config)
	if err != nil {
		return nil, err
	}
	l.PgConn, l.raw = conn, conn.Conn()
	if encrypted, ok := l.raw.(*tls.Conn); ok {
		l.raw = encrypted.NetConn()
	}
	return l, nil
}

// unresolved leaves a name to the dialer, which tries the addresses that it has beside each
// other.
func unresolved(_ context.Context, host string) ([]string, error) { return []string{host}, nil }

// errStandby says that a server is in recovery.
var errStandby = errors.New("it is a standby")

// fit refuses a server that we can't use. Since PostgreSQL 14 it says by itself whether it is a
// standby; an older one, and many poolers, are asked where there are others to choose from. Of
// one alone it shows at the first step.
func (s *server) fit(ctx context.Context, conn *pgconn.PgConn) error {
	release := conn.ParameterStatus("server_version")
	major, _, _ := strings.Cut(release, ".")
	if n, err := strconv.Atoi(strings.Fields(major + " ?")[0]); err == nil && n < oldest {
		return backends.Refuse("", "%s is PostgreSQL %s, and flockd needs %d or later", s.name, release, oldest)
	}
	switch conn.ParameterStatus("in_hot_standby") {
	case "on":
		return errStandby
	case "":
		if len(s.hosts) > 1 {
			return recovers(ctx, conn)
		}
	}
	return nil
}

func recovers(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, "SELECT pg_catalog.pg_is_in_recovery()").ReadAll()
	switch {
	case err != nil:
		return err
	case len(results) == 1 && len(results[0].Rows) == 1 && string(results[0].Rows[0][0]) == "t":
		return errStandby
	}
	return nil
}
