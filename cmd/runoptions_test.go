package cmd

import (
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends"
	"flockd/runner"
)

// plain are the options of a run without flags.
func plain() runOptions {
	return runOptions{
		key: "k", from: fromDefault, mode: backends.Exclusive, ttl: 5 * time.Minute, onLost: runner.Kill, warnSignal: syscall.SIGURG,
		grace: runner.DefaultGrace, onUnavailable: runner.Fail, argv: []string{"true"}, exits: map[runner.Class]int{},
	}
}

func TestFlagsToOptions(t *testing.T) {
	for _, c := range []struct {
		args string
		env  []string
		want func(*runOptions)
	}{
		{"-k k true", nil, func(o *runOptions) {}},
		{"--key=k -- true", nil, func(o *runOptions) {}},
		{"-kk true -w 3 --key x", nil, func(o *runOptions) { o.argv = strings.Fields("true -w 3 --key x") }},
		{"-k k -- -x --", nil, func(o *runOptions) { o.argv = []string{"-x", "--"} }},
		{"-k k --ttl 90 true", nil, func(o *runOptions) { o.ttl = 90 * time.Second }},
		{"-k k --ttl 1.5m true", nil, func(o *runOptions) { o.ttl = 90 * time.Second }},
		{"-k k -w 2.5 true", nil, func(o *runOptions) { o.wait = 2500 * time.Millisecond }},
		{"-k k -w 1d12h true", nil, func(o *runOptions) { o.wait = 36 * time.Hour }},
		{"-k k --wait forever true", nil, func(o *runOptions) { o.wait = runner.Forever }},
		{"-k k -n true", nil, func(o *runOptions) {}},
		{"-k k -n --nb --nonblock -x -o -F --exclusive --close --no-fork true", nil, func(o *runOptions) {}},
		{"-k k --on-lost warn --warn-signal sigusr1 true", nil, func(o *runOptions) { o.onLost, o.warnSignal = runner.Warn, syscall.SIGUSR1 }},
		{"-k k --on-lost warn --warn-signal 10 true", nil, func(o *runOptions) { o.onLost, o.warnSignal = runner.Warn, syscall.SIGUSR1 }},
		{"-k k --grace 0 true", nil, func(o *runOptions) { o.grace = 0 }},
		{"-k k --grace 30s --max-runtime 1h true", nil, func(o *runOptions) { o.grace, o.maxRuntime = 30*time.Second, time.Hour }},
		{"-k k --leftovers leave true", nil, func(o *runOptions) { o.leftovers = runner.Leave }},
		{"-k k --leftovers wait true", nil, func(o *runOptions) { o.leftovers = runner.Await }},
		{"-k k --leftovers kill true", nil, func(o *runOptions) { o.leftovers = runner.Purge }},
		{"-k k --on-unavailable run true", nil, func(o *runOptions) { o.onUnavailable = runner.RunUnlocked }},
		{"-k k -E 0 --exit lost=3 --exit max-runtime=4 true", nil, func(o *runOptions) {
			o.exits = map[runner.Class]int{runner.Skipped: 0, runner.Lost: 3, runner.MaxRuntime: 4}
		}},
		{"-k k --conflict-exit-code 9 true", nil, func(o *runOptions) { o.exits = map[runner.Class]int{runner.Skipped: 9} }},
		{"-k k --result-file +/tmp/r --note hello true", nil, func(o *runOptions) { o.resultFile, o.note = "+/tmp/r", "hello" }},
		{"-k k -q -q --log-format json true", nil, func(o *runOptions) { o.quiet, o.json = true, true }},
		{"-k k -v true", nil, func(o *runOptions) { o.verbose = true }},
		{"-k k -c true", nil, func(o *runOptions) { o.argv = []string{"/bin/sh", "-c", "true"} }},
		{"-k k --command true", nil, func(o *runOptions) { o.argv = []string{"/bin/sh", "-c", "true"} }},
		{"-k k -b sqlite:///x true", nil, func(o *runOptions) { o.from = fromFlag }},
		{"-k k -b sqlite:///x true", []string{"FLOCKD_BACKEND="}, func(o *runOptions) { o.from = fromFlag }},
		{"-k k true", []string{"FLOCKD_BACKEND=redis://u:pw@h"}, func(o *runOptions) {
			o.from, o.inherited = backendVariable, "redis://u:pw@h"
		}},
		{"-k k true", []string{"FLOCKD_HELD=a,b"}, func(o *runOptions) { o.chain = []string{"a", "b"} }},
		{"-k k true", []string{"FLOCKD_TTL=1s", "FLOCKD_KEY=x", "FLOCKD_WAIT=3"}, func(o *runOptions) {}},
		{"-k k true", []string{"CI_JOB_URL=https://ci/1"}, func(o *runOptions) { o.note = "https://ci/1" }},
		{"-k k --note mine true", []string{"CI_JOB_URL=https://ci/1"}, func(o *runOptions) { o.note = "mine" }},
		{"-k k true", []string{"GITHUB_SERVER_URL=https://gh", "GITHUB_REPOSITORY=a/b", "GITHUB_RUN_ID=7"}, func(o *runOptions) {
			o.note = "https://gh/a/b/actions/runs/7"
		}},
	} {
		got := call(t, c.env, append([]string{"run"}, strings.Fields(c.args)...)...)
		if got.code != 0 || got.run == nil {
			t.Errorf("flockd run %s: exit code %d: %s", c.args, got.code, got.stderr)
			continue
		}
		got.run.backend = nil
		if len(got.run.chain) == 0 {
			got.run.chain = nil
		}
		want := plain()
		c.want(&want)
		if !reflect.DeepEqual(*got.run, want) {
			t.Errorf("flockd run %s (%v):\n got %+v\nwant %+v", c.args, c.env, *got.run, want)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, key := range []string{
		"a/b", "/a", "a b", "a%2Fb", "ключ", "业务:订单-42", "-x", "*", `'"; --`, " ", "\\", "=", strings.Repeat("k", 512),
	} {
		for _, args := range [][]string{{"run", "--key", key, "true"}, {"run", "-k", key, "--", "true"}, {"run", "--key=" + key, "true"}, {"run", "-k" + key, "true"}} {
			if o := call(t, nil, args...); o.code != 0 || o.run == nil || o.run.key != key {
				t.Errorf("flockd %q: %+v", args, o)
			}
		}
	}
	if o := call(t, nil, "run", "--key=--", "true"); o.code != 0 || o.run.key != "--" {
		t.Errorf("--key=--: %+v", o)
	}
	for _, args := range [][]string{{"run", "--key", "--", "true"}, {"run", "-k", "--", "true"}, {"run", "-k", "k", "--note", "--", "true"}, {"run", "-k", "k", "--result-file", "--", "true"}} {
		if o := call(t, nil, args...); o.code != 64 || !strings.Contains(o.stderr, "needs a value") {
			t.Errorf("flockd %q: %+v", args, o)
		}
	}
	for key, wanted := range map[string]string{
		"":                         "empty",
		strings.Repeat("k", 600):   "600 bytes",
		"a\x00b":                   "control",
		"a\nb":                     "control",
		"a\x1b[2Jb":                "control",
		"\xff":                     "UTF-8",
		strings.Repeat("业", 171):   "513 bytes",
		strings.Repeat("k", 1<<20): "1048576 bytes",
	} {
		o := call(t, nil, "run", "--key", key, "true")
		wantUsage(t, o, "--key", wanted)
		if len(o.stderr) > 200 {
			t.Errorf("the message is %d bytes long", len(o.stderr))
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ args, wanted string }{
		{"true", "no key"},
		{"", "no key"},
		{"-k a", "no command"},
		{"-k a --", "no command"},
		{"-k", "--key needs a value"},
		{"-k a -k b true", "--key is given twice"},
		{"-k a -b sqlite: --backend sqlite: true", "--backend is given twice"},
		{"-k a --wait 3 -n true", "--no-wait|--wait 3"},
		{"-k a --wait 3 --nonblock true", "--no-wait|--wait 3"},
		{"-k a -E 1 --exit skipped=2 true", "skipped|1 and 2"},
		{"-k a -E 1 --conflict-exit-code 2 true", "skipped|1 and 2"},
		{"-k a --exit lost=1 --exit lost=2 true", "--exit|lost|1 and 2"},
		{"-k a -q -v true", "--quiet|--verbose"},
		{"-k a --ttl 10x true", "--ttl 10x|1h30m"},
		{"-k a --ttl 0 true", "--ttl 0|1s"},
		{"-k a --ttl -5s true", "--ttl -5s|1s"},
		{"-k a --ttl 10ms true", "--ttl 10ms|1s"},
		{"-k a --ttl forever true", "--ttl forever"},
		{"-k a --ttl 9999999999d true", "--ttl 9999999999d"},
		{"-k a --wait -1 true", "--wait -1"},
		{"-k a --wait never true", "--wait never|forever"},
		{"-k a --grace 1h true", "--grace 1h|5m|--ttl "},
		{"-k a --grace 1m --ttl 1m true", "--grace 1m|TTL of 1m|hint: --ttl "},
		{"-k a --max-runtime -1 true", "--max-runtime -1"},
		{"-k a -E 600 true", "-E 600|0 to 255"},
		{"-k a -E -1 true", "-E -1|0 to 255"},
		{"-k a --exit 3 true", "--exit 3|CLASS=N"},
		{"-k a --exit finished=3 true", "finished|skipped, done, lost"},
		{"-k a --on-lost ignore true", "--on-lost ignore|kill, warn"},
		{"-k a --leftovers name true", "--leftovers name|leave, wait, kill"},
		{"-k a --on-unavailable wait true", "--on-unavailable wait|fail, skip, run"},
		{"-k a --log-format xml true", "--log-format xml|text, json"},
		{"-k a --warn-signal USR1 true", "--warn-signal USR1|--on-lost warn"},
		{"-k a --on-lost warn --warn-signal NOPE true", "--warn-signal NOPE"},
		{"-k a --on-lost warn --warn-signal 99 true", "--warn-signal 99"},
		{"-k a -c true false", "--shell|false"},
		{"-k a --timeout 3 true", "--wait or --max-runtime?"},
		{"-k a --timeout=3 true", "--wait or --max-runtime?"},
		{"-k a --nope true", "no flag --nope|run --help"},
		{"-k a -Z true", "no flag -Z"},
		{"-k a --wait -- true", "--wait needs a value, and -- looks like a flag: a variable that is missing here?"},
		{"-k a --ttl --wait 5 true", "--ttl needs a value, and --wait looks like a flag"},
		{"-k a --min-hold -- true", "--min-hold needs a value"},
		{"-k a --once-per --tz UTC true", "--once-per needs a value"},
		{"-k a --wait= true", "--wait|it is empty: a variable that is missing here?"},
		{"-k a --once-per= true", "--once-per|it is empty"},
		{"-k a -wait 5 true", "-wait is read as -w ait|hint: did you mean --wait?"},
		{"-key a true", "-key is read as -k ey|hint: did you mean --key?"},
		{"-k a -ttl 5 true", "no flag -t|hint: did you mean --ttl?"},
		{"-k a -b nonsense true", "--backend|a backend is a URL"},
		{"-k a -b sqlite:?timeout=soon true", "--backend|timeout=soon"},
		{"-k a -b redis://u:***@h true", "--backend|***|hint: "},
		{"-k a -b redis://h?password=*** true", "--backend|***|hint: "},
	} {
		o := call(t, nil, append([]string{"run"}, strings.Fields(c.args)...)...)
		t.Run(c.args, func(t *testing.T) { wantUsage(t, o, strings.Split(c.wanted, "|")...) })
	}
	wantUsage(t, call(t, nil, "run", "-k", "a", "-c", ""), "--shell is empty")
	wantUsage(t, call(t, nil, "run", "-k", "a", "--config", "", "true"), "--config is empty")
	wantUsage(t, call(t, nil, "run", "-k", "a", "--note", strings.Repeat("n", 513), "true"), "--note", "512", "513")
	wantUsage(t, call(t, []string{"FLOCKD_BACKEND="}, "run", "-k", "a", "true"), "FLOCKD_BACKEND is set but empty")
	wantUsage(t, call(t, []string{"FLOCKD_BACKEND=redis://:***@h"}, "run", "-k", "a", "true"), "FLOCKD_BACKEND", "***", "hint: ")
}

func TestNoSecretInUsageErrors(t *testing.T) {
	const url = "redis://user:hunter2@host:6379/x%zz?password=hunter2&timeout=no"
	for _, args := range [][]string{
		{"-k", "a", "-b", url, "true"}, {"-k", "a", "-B" + url, "true"}, {"-k", "a", "--backnd=" + url, "true"},
		{"-k", "a", "-b", url, "-b", url, "true"}, {"-k", "a", "-b", "hunter2", "true"}, {"-k", "a", "--backend=:hunter2"},
		{"-k", "a", "-b", "redis://user:hunter2%zz@host", "true"},
	} {
		o := call(t, nil, append([]string{"run"}, args...)...)
		wantUsage(t, o)
		if strings.Contains(o.stderr, "hunter2") {
			t.Errorf("%q shows the secret: %s", args, o.stderr)
		}
	}
	o := call(t, []string{"FLOCKD_BACKEND=" + url}, "run", "-k", "a", "true")
	if wantUsage(t, o); strings.Contains(o.stderr, "hunter2") {
		t.Errorf("the variable's secret is shown: %s", o.stderr)
	}
}

func TestManyArguments(t *testing.T) {
	args := []string{"run", "-k", "a", "true"}
	for i := range 10_000 {
		args = append(args, fmt.Sprint("--", i))
	}
	if o := call(t, nil, args...); o.code != 0 || len(o.run.argv) != 10_001 {
		t.Errorf("%d: %s", o.code, o.stderr)
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "90": 90 * time.Second, "1.5": 1500 * time.Millisecond, ".5": 500 * time.Millisecond,
		"1h30m": 90 * time.Minute, "1d": day, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "-5s": -5 * time.Second,
		"-1d12h": -36 * time.Hour, "100000d": 100000 * day, "0.25": 250 * time.Millisecond, "250ms": 250 * time.Millisecond,
	} {
		if got, err := parseDuration(text); got != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "d", "1w", "1d-3h", "1d 3h", "1h1d", "1dd", "1e3", "0x10", "1:30", "106752d", "99999999999999999999", "-", ".", "forever",
		"1d3", // of what?
	} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 999 * time.Millisecond: "0s", -time.Second: "0s", 61 * time.Second: "1m1s", time.Hour: "1h",
		51*time.Hour + 59*time.Minute: "2d3h", day + time.Minute: "1d", 400 * day: "400d",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{5 * time.Minute: "5m", 36 * time.Hour: "36h", 0: "0s", 90 * time.Second: "1m30s", time.Hour + time.Second: "1h0m1s", 10 * time.Second: "10s"} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %s, want %s", d, got, want)
		}
	}
}
