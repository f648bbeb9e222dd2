package cmd

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/runner"
)

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestLineFlagsToOptions(t *testing.T) {
	fixed := func(d time.Duration) backends.Period { return backends.Period{Unit: backends.Fixed, Every: d} }
	unit := func(u backends.Unit) backends.Period { return backends.Period{Unit: u} }
	const lead = 30 * time.Second
	berlin := zone(t, "Europe/Berlin")
	for args, want := range map[string]func(*runOptions){
		"-s":            func(o *runOptions) { o.mode = backends.Shared },
		"--shared":      func(o *runOptions) { o.mode = backends.Shared },
		"--slots 3":     func(o *runOptions) { o.mode, o.slots = backends.Slots, 3 },
		"--slots 1000":  func(o *runOptions) { o.mode, o.slots = backends.Slots, 1000 },
		"--min-hold 2m": func(o *runOptions) { o.minHold = 2 * time.Minute },
		"--once v42":    func(o *runOptions) { o.once = &backends.Once{ID: "v42"} },
		"--once v42 --once-keep 90d": func(o *runOptions) {
			o.once = &backends.Once{ID: "v42", Keep: 90 * day}
		},
		"--once-per 15m":  func(o *runOptions) { o.once = &backends.Once{Per: fixed(15 * time.Minute), Lead: lead} },
		"--once-per 900":  func(o *runOptions) { o.once = &backends.Once{Per: fixed(15 * time.Minute), Lead: lead} },
		"--once-per hour": func(o *runOptions) { o.once = &backends.Once{Per: fixed(time.Hour), Lead: lead} },
		"--once-per 12h --tz UTC --once-lead 5m": func(o *runOptions) {
			o.once = &backends.Once{Per: fixed(12 * time.Hour), Lead: 5 * time.Minute, Zone: time.UTC}
		},
		"--once-per day --tz Europe/Berlin": func(o *runOptions) { o.once = &backends.Once{Per: unit(backends.Day), Lead: lead, Zone: berlin} },
		"--once-per 1d --tz UTC":            func(o *runOptions) { o.once = &backends.Once{Per: unit(backends.Day), Lead: lead, Zone: time.UTC} },
		"--once-per 24h --tz UTC":           func(o *runOptions) { o.once = &backends.Once{Per: unit(backends.Day), Lead: lead, Zone: time.UTC} },
		"--once-per week --tz UTC --once-keep 30d": func(o *runOptions) {
			o.once = &backends.Once{Per: unit(backends.Week), Lead: lead, Zone: time.UTC, Keep: 30 * day}
		},
		"--once-per month --tz UTC --once-lead 0": func(o *runOptions) { o.once = &backends.Once{Per: unit(backends.Month), Zone: time.UTC} },
		"-w 1h --max-waiters 3":                   func(o *runOptions) { o.wait, o.maxWaiters = time.Hour, 3 },
		"-w 1h --max-waiters 0":                   func(o *runOptions) { o.wait, o.maxWaiters = time.Hour, runner.Nobody },
		"-w forever --supersede":                  func(o *runOptions) { o.wait, o.supersede = runner.Forever, true },
		"--slots 2 --min-hold 1m -w 1h --supersede": func(o *runOptions) {
			o.mode, o.slots, o.minHold, o.wait, o.supersede = backends.Slots, 2, time.Minute, time.Hour, true
		},
	} {
		got := call(t, nil, append([]string{"run", "-k", "k"}, append(strings.Fields(args), "true")...)...)
		if got.code != 0 || got.run == nil {
			t.Errorf("flockd run %s: exit code %d: %s", args, got.code, got.stderr)
			continue
		}
		o := plain()
		want(&o)
		got.run.backend, got.run.chain = nil, nil
		if !reflect.DeepEqual(*got.run, o) {
			t.Errorf("flockd run %s:\n got %+v\nwant %+v", args, *got.run, o)
		}
	}
}

func TestLineUsageErrors(t *testing.T) {
	for args, wanted := range map[string]string{
		"--shared --slots 3":                               "--shared and --slots 3",
		"--slots 0":                                        "--slots 0|from 1 to 1000",
		"--slots 1001":                                     "--slots 1001|from 1 to 1000",
		"--slots two":                                      "--slots two",
		"--slots 2 --slots 2":                              "--slots is given twice",
		"--min-hold -1":                                    "--min-hold -1|negative",
		"--once=":                                          "--once|empty|variable",
		"--once a\x01b":                                    "--once|control",
		"--once a --once-per hour":                         "--once a and --once-per hour",
		"--once a --shared":                                "--once a and --shared",
		"--once a --slots 2":                               "--once a and --slots 2",
		"--once-per hour -s":                               "--once-per hour and --shared",
		"--once a --on-unavailable run":                    "--once a and --on-unavailable run",
		"--once-per hour --on-unavailable run":             "--once-per hour and --on-unavailable run",
		"--once-per 7m":                                    "--once-per 7m|6m40s and 7m12s",
		"--once-per 1.5":                                   "--once-per 1.5|1s and 2s",
		"--once-per 100ms":                                 "--once-per 100ms|1s at least",
		"--once-per 7d":                                    "--once-per 7d|week",
		"--once-per year":                                  "--once-per year|month",
		"--once-per day":                                   "--once-per day needs --tz|hint: --tz Europe/Berlin",
		"--once-per 24h":                                   "--once-per 24h needs --tz|day",
		"--once-per month":                                 "--once-per month needs --tz",
		"--once-per 15m --tz Europe/Berlin":                "--tz Europe/Berlin only makes sense with a day or longer|--once-per 15m",
		"--tz UTC":                                         "--tz UTC only makes sense with --once-per",
		"--once a --tz UTC":                                "--tz UTC only makes sense with --once-per",
		"--once-per day --tz Local":                        "--tz Local|hosts may differ",
		"--once-per day --tz Europe/Bonn":                  "--tz Europe/Bonn|no time zone",
		"--once-per day --tz europe/berlin":                "--tz europe/berlin|no time zone: did you mean Europe/Berlin?",
		"--once-per day --tz AMERICA/NEW_YORK":             "did you mean America/New_York?",
		"--once-per day --tz utc":                          "did you mean UTC?",
		"--once-per day --tz local":                        "no time zone such as",
		"--once-per day --tz ../../etc/passwd":             "--tz ../../etc/passwd|no time zone",
		"--once-per day --tz=":                             "--tz|empty",
		"--once-lead 1m":                                   "--once-lead 1m only makes sense with --once-per",
		"--once a --once-lead 1m":                          "--once-lead 1m only makes sense with --once-per",
		"--once-per 30s":                                   "--once-lead 30s must be less than --once-per 30s|hint: --once-lead 3s, for example",
		"--once-per hour --once-lead 2h":                   "--once-lead 2h must be less than --once-per hour",
		"--once-per week --tz UTC --once-lead 24h":         "--once-lead 24h must be less than a day",
		"--once-keep 1d":                                   "--once-keep 1d only makes sense with --once or --once-per",
		"--once a --once-keep 0":                           "--once-keep 0|1s at least",
		"--once-per hour --once-keep 10m":                  "--once-keep 10m must be 1h at least with --once-per hour",
		"--once-per day --tz Europe/Berlin --once-keep 1d": "--once-keep 1d must be 25h at least",
		"--max-waiters 3":                                  "--max-waiters 3 only makes sense with --wait",
		"-n --max-waiters 3":                               "--max-waiters 3 only makes sense with --wait",
		"-w 1h --max-waiters -1":                           "--max-waiters -1|from 0",
		"-w 1h --max-waiters many":                         "--max-waiters many",
		"--supersede":                                      "--supersede only makes sense with --wait",
		"--supersede -w 0":                                 "--supersede only makes sense with --wait",
		"-w 1h --supersede --max-waiters 0":                "--supersede and --max-waiters 0",
	} {
		o := call(t, nil, append([]string{"run", "-k", "k"}, append(strings.Fields(args), "true")...)...)
		t.Run(args, func(t *testing.T) { wantUsage(t, o, strings.Split(wanted, "|")...) })
	}
}

func TestLineOptionsReachTheRunner(t *testing.T) {
	o := plain()
	o.mode, o.slots, o.minHold, o.once = backends.Slots, 3, time.Minute, &backends.Once{ID: "v42"}
	o.wait, o.maxWaiters, o.supersede = time.Hour, 2, true
	got := (&lockedRun{app: &app{print: newPrinter(io.Discard, false, false, false)}, runOptions: &o}).options(nil, "/bin/true")
	want := backends.Request{Key: "k", Mode: backends.Slots, Slots: 3, TTL: o.ttl, MinHold: time.Minute, Once: o.once}
	if !reflect.DeepEqual(got.Request, want) || got.Wait != time.Hour || got.MaxWaiters != 2 || !got.Supersede {
		t.Errorf("%+v", got)
	}
}

// A file's settings that do nothing are there for other runs. What a flag or a more
// particular section rules out doesn't count; what contradicts another of the same
// section is refused, and named with its line.
func TestLineSettingsOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.toml")
	text := "tz = \"Europe/Berlin\"\nonce-lead = \"1m\"\n[key.deploy]\nsupersede = true\n[key.builds]\nslots = 4\nmin-hold = 10\n[key.nightly]\nonce-per = \"day\"\n" +
		"[key.dumps]\nshared = true\nmax-waiters = 2\n[key.both]\nshared = true\nslots = 2\n[key.\"build*\"]\nshared = true\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]func(*runOptions) bool{
		"-k other":                func(o *runOptions) bool { return o.once == nil && o.mode == backends.Exclusive },
		"-k other --once-per 15m": func(o *runOptions) bool { return o.once.Per.Every == 15*time.Minute && o.once.Lead == time.Minute },
		"-k deploy":               func(o *runOptions) bool { return o.supersede && o.wait == 0 },
		"-k deploy --supersede=0": func(o *runOptions) bool { return !o.supersede },
		"-k builds":               func(o *runOptions) bool { return o.slots == 4 && o.minHold == 10*time.Second },
		"-k builds --slots 2":     func(o *runOptions) bool { return o.slots == 2 },
		"-k nightly": func(o *runOptions) bool {
			return o.once.Zone.String() == "Europe/Berlin" && o.once.Per.Unit == backends.Day
		},
		"-k nightly --tz UTC":        func(o *runOptions) bool { return o.once.Zone == time.UTC },
		"-k nightly --once-per week": func(o *runOptions) bool { return o.once.Per.Unit == backends.Week },
		"-k dumps -w 1":              func(o *runOptions) bool { return o.mode == backends.Shared && o.maxWaiters == 2 },
		"-k dumps --shared=false":    func(o *runOptions) bool { return o.mode == backends.Exclusive },
		"-k builds -s":               func(o *runOptions) bool { return o.mode == backends.Shared && o.slots == 0 },
		"-k building":                func(o *runOptions) bool { return o.mode == backends.Shared },
		"-k both --slots 3":          func(o *runOptions) bool { return o.mode == backends.Slots && o.slots == 3 },
		"-k both --once x":           func(o *runOptions) bool { return o.mode == backends.Exclusive && o.once.ID == "x" },
		"-k nightly --slots 2":       func(o *runOptions) bool { return o.once == nil && o.slots == 2 },
		"-k nightly --once x":        func(o *runOptions) bool { return o.once.ID == "x" && o.once.Per == backends.Period{} },
		"-k dumps --once-per 1h":     func(o *runOptions) bool { return o.mode == backends.Exclusive && o.once != nil },
		"-k dumps -w 1 --supersede":  func(o *runOptions) bool { return o.supersede && o.maxWaiters == 0 },
	} {
		o := call(t, nil, append([]string{"run", "--config", file}, append(strings.Fields(args), "true")...)...)
		if o.code != 0 || o.run == nil || !want(o.run) {
			t.Errorf("%s: %+v %+v", args, o, o.run)
		}
	}
	for args, wanted := range map[string]string{
		"-k both":                                 "--shared (" + file + ":14) and --slots 2 (" + file + ":15)",
		"-k builds --once x --slots 2":            "--once x and --slots 2",
		"-k builds --once x --on-unavailable run": "--once x and --on-unavailable run",
	} {
		wantUsage(t, call(t, nil, append([]string{"run", "--config", file}, append(strings.Fields(args), "true")...)...), wanted)
	}
	o := call(t, nil, "config", "--config", file, "--key", "builds", "--json")
	if o.code != 0 || !strings.Contains(o.stdout, `"value": "4"`) || !strings.Contains(o.stdout, file+":6") {
		t.Errorf("%+v", o)
	}
}
