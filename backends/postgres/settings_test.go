package postgres

import (
	"errors"
	"net/url"
	"testing"

	"flockd/backends"
	"flockd/backends/backendtest"
	"flockd/backends/backendtest/servers"
)

// anySettings: whatever a session is set to, all steps come out the same: on the first use, and
// where the schema was made under other settings.
func anySettings(t *testing.T, p *servers.Process) {
	base := database(t, p, "")
	backendtest.Everything(t, open(t, base+"?prefix=old"))
	for setting, matters := range map[string]bool{ // on the first use too
		"default_transaction_isolation=serializable":     true,
		`default_transaction_isolation=repeatable\ read`: false,
		"default_transaction_read_only=on":               true,
		"default_transaction_deferrable=on":              false,
		"standard_conforming_strings=off":                true,
		"backslash_quote=off":                            true,
		"bytea_output=escape":                            false,
		"timezone=Asia/Kathmandu":                        false,
		"intervalstyle=sql_standard":                     false,
		"client_encoding=latin1":                         true,
		"search_path=nowhere":                            true,
		`search_path=pg_temp,\ pg_catalog`:               true,
		"extra_float_digits=-5":                          false,
		"transform_null_equals=on":                       true,
		"array_nulls=off":                                false,
		"enable_indexscan=off":                           false,
		"plan_cache_mode=force_custom_plan":              false,
		"synchronous_commit=off":                         false,
		"client_min_messages=debug1":                     true,
		"check_function_bodies=off":                      true,
	} {
		options := "&options=" + url.QueryEscape("-c "+setting)
		backendtest.Everything(t, open(t, base+"?prefix=old"+options))
		if matters {
			backendtest.Everything(t, open(t, base+"?prefix=new"+backends.NewID()[:12]+options))
		}
		if t.Failed() {
			t.Fatalf("with %s", setting)
		}
	}
}

// encodings: none of a database or a server matters.
func encodings(t *testing.T, p *servers.Process) {
	for _, options := range []string{"ENCODING 'SQL_ASCII'", "ENCODING 'LATIN1'", "ENCODING 'EUC_JP'", "ENCODING 'UTF8'"} {
		base := database(t, p, options+" LOCALE 'C'")
		backendtest.Everything(t, open(t, base))
		backendtest.Everything(t, open(t, base+"?options=-c+client_encoding%3Dsql_ascii"))
		if t.Failed() {
			t.Fatalf("with %s", options)
		}
	}
}

// strangerTables: names of ours that are somebody else's in another schema, which comes first
// in the search path, are none of our business, and neither are operators.
func strangerTables(t *testing.T, p *servers.Process) {
	base := database(t, p, "")
	run(t, base, `CREATE TABLE public.claims (n int); CREATE TABLE public.keys (n int); CREATE TABLE public.ended (n int);
		CREATE FUNCTION public.clock_1() RETURNS bigint LANGUAGE sql AS 'SELECT 5::bigint';
		CREATE FUNCTION public.pg_backend_pid() RETURNS int LANGUAGE sql AS 'SELECT 5';
		CREATE FUNCTION public.never(bytea, bytea) RETURNS boolean LANGUAGE sql AS 'SELECT false';
		CREATE OPERATOR public.= (LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = public.never);`)
	backendtest.Everything(t, open(t, base+"?options="+url.QueryEscape(`-c search_path=public,\ pg_catalog`)))
}

// oneHolder: of many who ask at once, under an isolation that would show each the line as it
// was before the others, one is granted the key.
func oneHolder(t *testing.T, p *servers.Process) {
	base := urlOf(p, servers.PostgresDatabase) + "?prefix=one&timeout=60s"
	for _, isolation := range []string{`read\ committed`, `repeatable\ read`, "serializable"} {
		key := "a " + isolation
		base := base + "&options=" + url.QueryEscape("-c default_transaction_isolation="+isolation)
		release(t, open(t, base), acquire(t, open(t, base), request(key)))
		all := make(chan error)
		for range 10 {
			s := open(t, base)
			go func() {
				_, err := s.Acquire(t.Context(), queue(key))
				all <- err
			}()
		}
		granted := 0
		for range 10 {
			switch err := <-all; {
			case err == nil:
				granted++
			case !errors.Is(err, backends.ErrHeld):
				t.Error(err)
			}
		}
		if granted != 1 {
			t.Errorf("%s: %d granted", isolation, granted)
		}
	}
}

// synchronous_commit=off alone is changed: a server that has lost power knows what it
// acknowledged.
func TestCommitsAreDurable(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t, "synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=0")
	s := open(t, userURL(p))
	for _, tt := range []struct {
		what string
		do   func(backends.Lease)
	}{
		{"grant", func(backends.Lease) {}},
		{"renewal", func(l backends.Lease) { renew(t, s, l) }},
		{"completed run", func(l backends.Lease) {
			if err := s.Complete(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}},
		{"notice", func(l backends.Lease) {
			if err := s.Ask(t.Context(), l.Key, l.ID, backends.Notice{Kind: backends.Break}); err != nil {
				t.Fatal(err)
			}
		}},
		{"release", func(l backends.Lease) { release(t, s, l) }},
		{"token", func(l backends.Lease) { backendtest.Admit(t, s, l.Key, l.Token) }},
	} {
		req := request(tt.what)
		req.Once = &backends.Once{ID: "run"}
		tt.do(acquire(t, s, req))
		rows := sql(t, p, servers.PostgresDatabase, "SELECT pg_current_wal_insert_lsn() - pg_current_wal_flush_lsn()")
		if left := string(rows[0][0]); left != "0" {
			t.Errorf("%s: %s bytes aren't on the disk", tt.what, left)
		}
	}
}

// TestWaitForStandbyBrokenOff: what no standby has confirmed doesn't count, though the server
// has committed it and says so.
func TestWaitForStandbyBrokenOff(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t, "fsync=off", "synchronous_standby_names=nobody", "synchronous_commit=local")
	base := urlOf(p, servers.PostgresDatabase)
	release(t, open(t, base), acquire(t, open(t, base), request("other")))
	s := open(t, base+"?timeout=60s&options=-c+synchronous_commit%3Don+-c+client_min_messages%3Derror")
	granted := begin(func() error {
		_, err := s.Acquire(t.Context(), request("a"))
		return err
	})
	breakOff(t, base)
	wantTrouble(t, <-granted, "wait for a standby was broken off")
	for range 2 { // the second time the token is there
		admitted := begin(func() error { return s.Admit(t.Context(), "a", 7) })
		breakOff(t, base)
		wantTrouble(t, <-admitted, "wait for a standby was broken off")
	}
}

// breakOff ends a commit's wait for a standby, once there is one.
func breakOff(t testing.TB, url string) {
	t.Helper()
	await(t, "a commit that waits for a standby", func() (string, bool) {
		rows := run(t, url, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		return "", len(rows) > 0
	})
}
