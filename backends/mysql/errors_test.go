package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// What a server may say, and what we make of it: what may pass is no refusal.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := &server{settings: &settings{name: "mysql://h", password: "hunter2", database: "d"}}
	for number, want := range map[uint16]string{
		1040: "has all the connections", 1203: "has all the connections", 1226: "has all the connections",
		1021: "no room on its disk", 1114: "no room on its disk",
		1053: "has ended the request", 1317: "has ended the request", 1969: "took too long", 3024: "took too long",
		1213: "others in the way", 1205: "others in the way", 1047: "isn't part of its cluster", 2000: "said *** (2000)",
	} {
		err := s.classify(fmt.Errorf("query: %w", &mysql.MySQLError{Number: number, Message: "said hunter2"}))
		wantTrouble(t, err, want)
	}
	for number, want := range map[uint16]string{
		1045: "refuses the user or password", 1698: "refuses the user or password", 1820: "the password has expired",
		1130: "doesn't let this host in: said ***", 3159: "wants TLS", 1049: `no database "d"`,
		1044: "lacks a right: said ***", 1142: "lacks a right", 1370: "lacks a right",
		1305: "something else there", 1054: "something else there", 1318: "something else there", 1406: "said ***",
	} {
		wantRefused(t, s.classify(&mysql.MySQLError{Number: number, Message: "said hunter2"}), want)
	}
}

// That a server takes no writes is final until it has taken one; of other options that say
// so by the same number nothing is known.
func TestReadOnlyAnswers(t *testing.T) {
	t.Parallel()
	s := &server{settings: &settings{name: "mysql://h"}}
	const text = "The MySQL server is running with the --read-only option so it cannot execute this statement"
	wantRefused(t, s.classify(&mysql.MySQLError{Number: 1290, Message: text}), "takes no writes")
	wantTrouble(t, s.classify(&mysql.MySQLError{Number: 1290, Message: "running with the --skip-grant-tables option"}), "--skip-grant-tables")
	s.served.Store(true)
	wantTrouble(t, s.classify(&mysql.MySQLError{Number: 1836, Message: "Running in read-only mode"}), "takes no writes now")
}

func TestLinkErrors(t *testing.T) {
	t.Parallel()
	s := &server{settings: &settings{name: "mysql://h"}}
	for err, want := range map[error]string{
		driver.ErrBadConn: "lost the connection", mysql.ErrInvalidConn: "lost the connection",
		mysql.ErrMalformPkt: "isn't MySQL's protocol", context.DeadlineExceeded: "no answer in time",
	} {
		wantTrouble(t, s.classify(err), want)
	}
	if err := s.classify(context.Canceled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	wantRefused(t, s.classify(mysql.ErrNoTLS), "has no TLS")
	wantRefused(t, s.classify(mysql.ErrCleartextPassword), "a kind of login")
}
