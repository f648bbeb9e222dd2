package cmd

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/election"
	"flockd/runner"
)

// candidature are the options of a candidate without flags.
func candidature() electOptions {
	return electOptions{
		runOptions: &runOptions{
			key: "k", from: fromDefault, mode: backends.Exclusive, ttl: 15 * time.Second, grace: runner.DefaultGrace, argv: []string{"true"},
		},
		restart: election.Always, hookLimit: 10 * time.Second,
	}
}

func TestElectFlags(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.toml")
	text := "ttl = \"1m\"\nshared = true\nwait = \"1h\"\nleftovers = \"leave\"\n[key.\"other\"]\nttl = \"2m\"\n[key.k]\nnote = \"of a file\"\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		env  []string
		want func(*electOptions)
	}{
		{"-k k true", nil, func(o *electOptions) {}},
		{"-kk -- true --key x -q", nil, func(o *electOptions) { o.argv = strings.Fields("true --key x -q") }},
		{"-k k -c true", nil, func(o *electOptions) { o.argv = []string{"/bin/sh", "-c", "true"} }},
		{"-k k --ttl 1m --grace 5 true", nil, func(o *electOptions) { o.ttl, o.grace = time.Minute, 5*time.Second }},
		{"-k k --restart on-failure true", nil, func(o *electOptions) { o.restart = election.OnFailure }},
		{"-k k --restart never true", nil, func(o *electOptions) { o.restart = election.Never }},
		{"-k k --on-elected up --hook-limit 1m true", nil, func(o *electOptions) { o.onElected, o.hookLimit = "up", time.Minute }},
		{"-k k --on-deposed down true", nil, func(o *electOptions) { o.onDeposed = "down" }},
		{"-k k -q --log-format json --note n true", nil, func(o *electOptions) { o.quiet, o.json, o.note = true, true, "n" }},
		{"-k k -v true", nil, func(o *electOptions) { o.verbose = true }},
		{"-k k -b redis://h true", []string{"FLOCKD_BACKEND=redis://other"}, func(o *electOptions) { o.from = fromFlag }},
		{"-k k true", []string{"FLOCKD_BACKEND=redis://u:pw@h", "FLOCKD_HELD=a,b"}, func(o *electOptions) {
			o.from, o.inherited, o.chain = backendVariable, "redis://u:pw@h", []string{"a", "b"}
		}},
		{"-k k --config " + config + " true", nil, func(o *electOptions) { o.ttl, o.note = time.Minute, "of a file" }},
		{"-k k --config " + config + " --ttl 20 true", nil, func(o *electOptions) { o.ttl, o.note = 20*time.Second, "of a file" }},
	} {
		got := call(t, c.env, append([]string{"elect"}, strings.Fields(c.args)...)...)
		if got.code != 0 || got.elect == nil {
			t.Errorf("flockd elect %s: exit code %d: %s", c.args, got.code, got.stderr)
			continue
		}
		if got.elect.backend = nil; len(got.elect.chain) == 0 {
			got.elect.chain = nil
		}
		want := candidature()
		c.want(&want)
		if !reflect.DeepEqual(*got.elect, want) {
			t.Errorf("flockd elect %s:\n got %+v\n     %+v\nwant %+v\n     %+v", c.args, *got.elect, *got.elect.runOptions, want, *want.runOptions)
		}
	}
}

func TestElectUsage(t *testing.T) {
	for _, c := range []struct{ args, wanted string }{
		{"true", "no key is given|hint: flockd elect --key"},
		{"-k a", "no command is given|hint: flockd elect --key"},
		{"-k a -k b true", "--key is given twice"},
		{"-k a -q -v true", "--quiet|--verbose"},
		{"-k a -c true false", "--shell|false"},
		{"-k a --ttl 0 true", "--ttl 0|1s"},
		{"-k a --grace 1m true", "--grace 1m|TTL of 15s|hint: --ttl "},
		{"-k a --restart sometimes true", "--restart sometimes|always, on-failure, never"},
		{"-k a --restart no true", "--restart no: |hint: --restart never"},
		{"svc -- true", "no key is given|hint: --key svc"},
		{"-k a --hook-limit 5s true", "--hook-limit only makes sense with --on-elected or --on-deposed"},
		{"-k a --hook-limit -1 --on-elected x true", "--hook-limit -1"},
		{"-k a --hook-limit 0 --on-elected x true", "--hook-limit 0: a hook always has a limit"},
		{"-k a --on-elected --ttl 15s true", "--on-elected needs a value"},
		{"-k a --wait 5 true", "no flag --wait|elect --help"},
		{"-k a --shared true", "no flag --shared"},
		{"-k a --on-lost warn true", "no flag --on-lost"},
		{"-k a --result-file r true", "no flag --result-file"},
		{"-k a --timeout 5 true", "no flag --timeout|elect --help"},
		{"-k a -b redis://u:***@h true", "--backend|***|hint: "},
	} {
		o := call(t, nil, append([]string{"elect"}, strings.Fields(c.args)...)...)
		t.Run(c.args, func(t *testing.T) { wantUsage(t, o, strings.Split(c.wanted, "|")...) })
	}
	for _, name := range []string{"--on-elected", "--on-deposed"} {
		wantUsage(t, call(t, nil, "elect", "-k", "a", name, "", "true"), name+" is empty: a variable that is missing here?")
	}
	wantUsage(t, call(t, []string{"FLOCKD_BACKEND="}, "elect", "-k", "a", "true"), "FLOCKD_BACKEND is set but empty")
}
