//go:build linux

package testscripts

import (
	"database/sql"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// monotonic is the clock of the embedded store, in ns.
func monotonic() int64 {
	var t unix.Timespec
	fatal(unix.ClockGettime(unix.CLOCK_MONOTONIC, &t))
	return t.Nano()
}

func openDB(path string) *sql.DB {
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=rw&_busy_timeout=5000")
	fatal(err)
	db.SetMaxOpenConns(1)
	return db
}

// sqlCmd works on a database behind flockd's back.
func sqlCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 2, "sql DATABASE STATEMENT")
	db := openDB(ts.MkAbs(args[0]))
	defer db.Close()
	_, err := db.Exec(args[1])
	ts.Check(err)
}

// leaseCmd writes to FILE until when the hold of KEY can be proven at most, on the
// store's clock: its last renewal plus 0.99 of its length.
func leaseCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 3, "lease DATABASE KEY FILE")
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), fmt.Append(nil, validUntil(ts, args[0], args[1], holdOf)), 0o600))
}

// takeCmd removes the hold of KEY behind flockd's back, and writes to FILE what lease
// would have written at that moment.
func takeCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 3, "take DATABASE KEY FILE")
	end := validUntil(ts, args[0], args[1], `DELETE FROM claims WHERE key = ? RETURNING renewed_mono, expires_mono`)
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), fmt.Append(nil, end), 0o600))
}

// replaceCmd renames the database to NEW, and writes to FILE what lease would have
// written at that moment: nobody can renew while it works.
func replaceCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 4, "replace DATABASE KEY FILE NEW")
	db := openDB(ts.MkAbs(args[0]))
	defer db.Close()
	_, err := db.Exec("BEGIN IMMEDIATE")
	ts.Check(err)
	var renewed, expires int64
	ts.Check(db.QueryRow(holdOf, args[1]).Scan(&renewed, &expires))
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), fmt.Append(nil, provenUntil(renewed, expires)), 0o600))
	ts.Check(os.Rename(ts.MkAbs(args[0]), ts.MkAbs(args[3])))
	_, err = db.Exec("ROLLBACK")
	ts.Check(err)
}

const holdOf = `SELECT renewed_mono, expires_mono FROM claims WHERE key = ? AND state = 'holding'`

// renewedCmd waits until the hold of KEY has been renewed three times since FILE
// was written.
func renewedCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 3, "renewed DATABASE KEY FILE")
	last, times := number(ts, args[2]), 0
	until(ts, "renewed", func() bool {
		if now := validUntil(ts, args[0], args[1], holdOf); now > last {
			last = now
			times++
		}
		return times == 3
	})
}

func validUntil(ts *testscript.TestScript, file, key, statement string) int64 {
	db := openDB(ts.MkAbs(file))
	defer db.Close()
	var renewed, expires int64
	ts.Check(db.QueryRow(statement, key).Scan(&renewed, &expires))
	return provenUntil(renewed, expires)
}

func provenUntil(renewed, expires int64) int64 { return renewed + (expires-renewed)*99/100 }

func number(ts *testscript.TestScript, file string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(ts.ReadFile(file)), 10, 64)
	ts.Check(err)
	return n
}

// inTimeCmd wants the last stamp of a probe to lie before the instant that lease
// wrote: the command measured by itself that it was dead in time.
func inTimeCmd(ts *testscript.TestScript, _ bool, args []string) {
	usage(ts, len(args) == 2, "intime STAMPS LEASE")
	last, until := number(ts, args[0]), number(ts, args[1])
	ts.Logf("last instruction %v before the lease could not be proven any more", time.Duration(until-last))
	if last >= until {
		ts.Fatalf("alive %v too long", time.Duration(last-until))
	}
}

// locker locks a database for writing, says so in a file, and stops in the middle
// of it: locker DATABASE FILE [once]. It stays stopped whatever wakes it, until it is
// killed, or with once until it is woken.
func locker() {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	db := openDB(os.Args[1])
	_, err := db.Exec("BEGIN IMMEDIATE")
	fatal(err)
	fatal(os.WriteFile(os.Args[2], []byte(strconv.Itoa(os.Getpid())), 0o600))
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, syscall.SIGCONT)
	for {
		fatal(unix.Kill(os.Getpid(), unix.SIGSTOP))
		<-woken // the stop may reach this thread later than the call returns
		if len(os.Args) > 3 {
			return
		}
	}
}
