package mysql

import (
	"slices"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
)

// Whatever a server and its sessions are set to, all steps come out the same: on the first
// use, and where the tables were made under other settings. init_connect is what a pool or a
// proxy may have left of others.
func TestSettings(t *testing.T) {
	t.Parallel()
	p := servers.MariaDB(t, "--log-bin=binlog", "--character-set-server=utf32", "--collation-server=utf32_swedish_ci")
	old := urlOf(p)
	backendtest.Everything(t, open(t, old))
	for _, setting := range []string{
		"sql_mode = ''",
		"sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION'",
		"sql_mode = 'ORACLE'",
		"sql_mode = 'TRADITIONAL,EMPTY_STRING_IS_NULL,ONLY_FULL_GROUP_BY'",
		"tx_isolation = 'SERIALIZABLE'",
		"tx_isolation = 'READ-UNCOMMITTED'",
		"tx_read_only = 1",
		"binlog_format = 'STATEMENT'",
		"binlog_format = 'ROW'",
		"init_connect = 'SET autocommit = 0'",
		"init_connect = 'SET completion_type = CHAIN'",
		"init_connect = 'SET NAMES gbk'",
		"init_connect = 'SET NAMES sjis'",
		"init_connect = 'SET character_set_results = swe7'",
		"init_connect = 'SET collation_connection = ucs2_turkish_ci'",
		"init_connect = 'SET timestamp = 1'",
		"init_connect = 'SET default_storage_engine = MyISAM'",
		"init_connect = 'SET sql_quote_show_create = 0, foreign_key_checks = 0, unique_checks = 0'",
		"init_connect = 'SET group_concat_max_len = 4'",
		"init_connect = 'SET sql_select_limit = 1'",
		"init_connect = 'SET max_sp_recursion_depth = 0'",
		"time_zone = '-11:30'",
	} {
		name, _, _ := strings.Cut(setting, " ")
		unused := fresh(t, p, "ALL")
		says(t, p, "SET GLOBAL "+setting)
		backendtest.Everything(t, open(t, old))
		backendtest.Everything(t, open(t, unused))
		if t.Failed() {
			t.Fatalf("with %s", setting)
		}
		says(t, p, "SET GLOBAL "+name+" = DEFAULT")
	}
}

// The hour that a local clock shows twice, when summer time ends, is two hours to leases. So
// it is where a server's SYSDATE is told to be NOW, which stands still within a statement.
func TestSummerTimeEnds(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--sysdate-is-now"}} {
		clock := servers.Clock(t)
		clock.Env = append(clock.Env, "TZ=CET-1CEST,M3.5.0,M10.5.0/3")
		p := clock.MariaDB(t, args...)
		s := open(t, urlOf(p))
		end := time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC) // of summer time there
		clock.Step(time.Until(end.Add(-30 * time.Minute)))
		r := request("a")
		r.TTL = 45 * time.Minute
		first := acquire(t, s, r)
		wantAbout(t, first.Granted, end.Add(-30*time.Minute))
		clock.Step(40 * time.Minute) // 02:10 again
		renew(t, s, first)
		held(t, s, request("a"))
		clock.Step(50 * time.Minute)
		if _, err := s.Renew(t.Context(), first); err == nil {
			t.Error("it was renewed after its end")
		}
		second := acquire(t, s, request("a"))
		wantAbout(t, second.Granted, end.Add(time.Hour))
		zone := says(t, p, "SELECT @@system_time_zone, FROM_UNIXTIME(1792890000)")
		if !strings.HasPrefix(zone, "CE") || !strings.HasSuffix(zone, "02:00:00") {
			t.Errorf("the server isn't in that zone: %s", zone)
		}
	}
}

func wantAbout(t *testing.T, got, want time.Time) {
	t.Helper()
	if off := got.Sub(want); off < 0 || off > 10*time.Minute {
		t.Errorf("the server says %v, not %v", got.UTC(), want)
	}
}

// The clock is looked at once the lock of the key is there: a lease that was waited for is
// as long as one that was not.
func TestClockIsReadUnderTheLock(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--sysdate-is-now"}} {
		clock := servers.Clock(t)
		p := clock.MariaDB(t, args...)
		s := open(t, urlOf(p))
		release(t, s, acquire(t, s, request("a")))
		stranger := session(t, p, servers.MariaDBDatabase)
		run(t, stranger, "START TRANSACTION")
		run(t, stranger, "SELECT k FROM flockd_keys WHERE k = 'a' FOR UPDATE")
		type granted struct {
			backends.Lease
			error
		}
		done := make(chan granted, 1)
		before := time.Now()
		go func() {
			lease, err := s.Acquire(t.Context(), request("a"))
			done <- granted{lease, err}
		}()
		awaitLock(t, p, "INSERT INTO flockd_keys")
		clock.Step(time.Hour)
		run(t, stranger, "ROLLBACK")
		if g := <-done; g.error != nil || g.Granted.Sub(before) < time.Hour {
			t.Errorf("%v: granted at %v, asked before %v: %v", args, g.Granted, before, g.error)
		}
	}
}

// versions that are too old, and those that aren't.
func TestOlder(t *testing.T) {
	t.Parallel()
	for version, want := range map[string][]bool{
		"5.6.51": {true, true}, "5.7.44-log": {false, true}, "8.0.39": {false, true}, "8.4.0": {false, true}, "9.1.0": {false, true},
		"10.4.34-MariaDB": {false, true}, "10.5.0-MariaDB": {false, false}, "11.4.2-MariaDB": {false, false},
		"unknown": {false, false},
	} {
		if got := []bool{older(version, "5.7"), older(version, "10.5")}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", version, got, want)
		}
	}
}
