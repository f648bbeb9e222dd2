package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"flockd/backends"
)

// connector makes connections to the first host that takes writes.
type connector struct {
	to   *server
	last atomic.Int32 // the index of the host that did the last time
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// Connect implements driver.Connector. Each host gets an even share of the time that ctx leaves.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	n := len(c.to.addresses)
	first := int(c.last.Load())
	var errs []error
	for tried := range n {
		i := (first + tried) % n
		conn, err := c.within(ctx, n-tried, c.to.addresses[i])
		if err == nil {
			c.last.Store(int32(i))
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, unreachable(errs)
}

// within connects to a host in one of so many shares of the time.
func (c *connector) within(ctx context.Context, shares int, address string) (driver.Conn, error) {
	share, cancel := context.WithCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		share, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(shares))
	}
	defer cancel()
	conn, err := c.open(share, address)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		err = &connectError{c.to.at(address).classify(err)}
	}
	return conn, err
}

func (c *connector) open(ctx context.Context, address string) (driver.Conn, error) {
	config, err := mysql.NewConnector(c.to.config(address))
	if err != nil {
		return nil, err
	}
	conn, err := config.Connect(ctx)
	if err != nil || len(c.to.addresses) == 1 {
		return conn, err
	}
	if err := writable(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// config is what the library is told. It prints nothing, for flockd alone writes to stderr,
// and asks for no character set: all that is sent is ASCII. What is sent may be several
// statements, for make alone; no other has anything but numbers and digits in it.
func (s *server) config(address string) *mysql.Config {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = s.network, address, s.database
	config.User, config.Passwd = s.user, s.password
	config.Logger = &mysql.NopLogger{}
	config.MultiStatements = true
	if s.tls != nil {
		config.TLS = s.tls.Clone()
		config.TLS.ServerName, _, _ = net.SplitHostPort(address)
		config.AllowFallbackToPlaintext = s.fallback
	}
	return config
}

// writable passes by a server that takes no writes.
func writable(ctx context.Context, conn driver.Conn) error {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, "SELECT CONCAT(@@global.read_only)", nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	value := make([]driver.Value, 1)
	if err := rows.Next(value); err != nil {
		return err
	}
	if text, _ := value[0].([]byte); string(text) != "0" && string(text) != "OFF" {
		return &mysql.MySQLError{Number: readOnly, Message: "read_only"}
	}
	return nil
}

// at is the server as one of its hosts alone, for messages.
func (s *server) at(address string) *server {
	one := &server{settings: new(settings)}
	*one.settings = *s.settings
	one.name = strings.TrimSuffix(s.name, strings.Join(s.addresses, ",")) + address
	one.served.Store(s.served.Load())
	return one
}

// connectError is why there is no connection, in words of ours.
type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }

// unreachable is why there is none to any host. It is refused only where every host would
// be.
func unreachable(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	var texts []string
	var refused *backends.RefusedError
	all := true
	for _, err := range errs {
		all = errors.As(err, &refused) && all
		texts = append(texts, err.Error())
	}
	err := errors.New(strings.Join(texts, "; "))
	if all {
		return &connectError{&backends.RefusedError{Err: err, Hint: refused.Hint}}
	}
	return &connectError{err}
}
