package election

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
	"flockd/runner"
)

// race is an election between candidates with real commands, which report to one pipe.
type race struct {
	*testing.T
	store *mem.Store
	lines *bufio.Scanner
	out   *os.File
}

func newRace(t *testing.T) *race {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	read.SetReadDeadline(time.Now().Add(2 * patience))
	return &race{T: t, store: mem.New(), lines: bufio.NewScanner(read), out: write}
}

// says waits for the next line, and returns what follows the words that it has to begin with.
func (r *race) says(want string) string {
	r.Helper()
	if !r.lines.Scan() {
		r.Fatalf("nobody says %q: %v", want, r.lines.Err())
	}
	rest, ok := strings.CutPrefix(r.lines.Text(), want)
	if !ok {
		r.Fatalf("somebody says %q, want %q", r.lines.Text(), want)
	}
	return strings.TrimSpace(rest)
}

// runs is a candidate with a script as its command.
type runs struct {
	*race
	name    string
	signals chan os.Signal
	stdin   *os.File // of its command and hooks
	states  chan State
	result  chan Result
}

func (r *race) command(stdin *os.File, script string) runner.Command {
	return runner.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(), Stdin: stdin, Stdout: r.out, Stderr: os.Stderr,
	}
}

func (r *race) enters(name, script string, change func(o *Options, hook func(string) *Hook)) *runs {
	r.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		r.Fatal(err)
	}
	c := &runs{race: r, name: name, signals: make(chan os.Signal, 8), stdin: write, states: make(chan State, 100), result: make(chan Result, 1)}
	o := Options{
		Term: runner.Options{
			Backend: r.store, Grace: time.Hour, Command: r.command(read, script),
			Request: backends.Request{Key: r.Name(), Owner: backends.Owner{Host: name}, Mode: backends.Exclusive, TTL: 10 * time.Hour},
		},
		Signals: c.signals, Changed: func(s State) { c.states <- s },
	}
	if change != nil {
		change(&o, func(script string) *Hook { return &Hook{Command: r.command(read, script), Limit: time.Hour} })
	}
	done := make(chan struct{})
	go func() { defer close(done); c.result <- Campaign(r.Context(), o) }()
	r.Cleanup(func() { write.Close(); <-done; read.Close() })
	return c
}

// reaches waits for a state.
func (c *runs) reaches(what string, is func(State) bool) State {
	c.Helper()
	for end := time.After(patience); ; {
		select {
		case s := <-c.states:
			if is(s) {
				return s
			}
		case <-end:
			c.Fatalf("%s: not within %v: %s", c.name, patience, what)
		}
	}
}

func (c *runs) waits() {
	c.Helper()
	c.reaches("a place in line", func(s State) bool { return s.Phase == Campaigning && s.Held != nil })
}

func (c *runs) ends() Result {
	c.Helper()
	select {
	case res := <-c.result:
		return res
	case <-time.After(patience):
		c.Fatalf("%s doesn't end", c.name)
	}
	return Result{}
}

// daemon reports its start, its TERM and, when it is let go, its end.
func daemon(name string) string {
	return fmt.Sprintf(`trap 'echo %[1]s told; read l; echo %[1]s ends; exit 5' TERM; echo %[1]s leads $FLOCKD_TOKEN; while :; do sleep 0.01; done`, name)
}

// The leader resigns: its command is stopped, the next one is elected when that has ended, with
// a larger token, and what is to be done for the old term is told which one that was.
func TestResignation(t *testing.T) {
	r := newRace(t)
	a := r.enters("a", daemon("a"), func(o *Options, hook func(string) *Hook) {
		o.OnDeposed = hook(`echo a $FLOCKD_DEPOSED $FLOCKD_TOKEN; read l; echo a after`)
	})
	first := r.says("a leads")
	b := r.enters("b", daemon("b"), nil)
	b.waits()
	a.signals <- syscall.SIGTERM
	r.says("a told")
	a.stdin.WriteString("\n")
	r.says("a ends")
	second, got := "", map[string]string{}
	for range 2 { // neither waits for the other
		if !r.lines.Scan() {
			t.Fatal(r.lines.Err())
		}
		words := strings.Fields(r.lines.Text())
		got[words[0]] = strings.Join(words[1:], " ")
	}
	second = strings.TrimPrefix(got["b"], "leads ")
	if got["a"] != "resigned "+first || len(second) < len(first) || len(second) == len(first) && second <= first {
		t.Errorf("the first term %s, then %q", first, got)
	}
	a.stdin.WriteString("\n")
	r.says("a after")
	if res := a.ends(); !res.Resigned || res.Class != runner.Interrupted || res.Exit.Code != 5 || fmt.Sprint(res.Lease.Token) != first {
		t.Errorf("%+v", res)
	}
	b.signals <- syscall.SIGINT
	r.says("b told")
	b.stdin.WriteString("\n")
	if res := b.ends(); !res.Resigned || res.Signal != syscall.SIGINT {
		t.Errorf("%+v", res)
	}
}

// A second signal doesn't wait for the command.
func TestSecondTermKills(t *testing.T) {
	r := newRace(t)
	a := r.enters("a", `trap 'echo told' TERM; echo leads; while :; do sleep 0.01; done`, nil)
	r.says("leads")
	a.signals <- syscall.SIGTERM
	r.says("told")
	a.signals <- syscall.SIGTERM
	if res := a.ends(); !res.Resigned || res.Exit.Signal != syscall.SIGKILL {
		t.Errorf("%+v", res)
	}
}

// Whoever is asked to resign, or has lost the key, stands in line again, and leads once more with
// a later term.
func TestDeposedLeadsAgain(t *testing.T) {
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprint("force ", force), func(t *testing.T) {
			r := newRace(t)
			a := r.enters("a", daemon("a"), func(o *Options, hook func(string) *Hook) {
				o.OnDeposed = hook(`echo a $FLOCKD_DEPOSED`)
				o.Term.Request.TTL = time.Minute // a notice is heard at once
				o.Term.Grace = 0                 // and what was lost is not waited for
			})
			first := r.says("a leads")
			b := r.enters("b", daemon("b"), nil)
			b.waits()
			lease := a.reaches("a term", func(s State) bool { return s.Phase == Leading }).Lease
			err := r.store.Ask(t.Context(), r.Name(), lease.ID, backends.Notice{Kind: backends.Resign, Force: force})
			if err != nil {
				t.Fatal(err)
			}
			want := map[bool]Deposed{false: Asked, true: Lost}[force]
			told := map[string]bool{"a " + string(want): false, "b leads": false}
			for range 2 {
				if !r.lines.Scan() {
					t.Fatal(r.lines.Err())
				}
				words := strings.Fields(r.lines.Text())
				told[strings.Join(words[:2], " ")] = true
			}
			if len(told) != 2 || !told["a "+string(want)] || !told["b leads"] {
				t.Errorf("%v", told)
			}
			a.waits()
			b.signals <- syscall.SIGTERM
			r.says("b told")
			b.stdin.WriteString("\n")
			r.says("b ends")
			if again := r.says("a leads"); len(again) == len(first) && again <= first {
				t.Errorf("the first term %s, the last %s", first, again)
			}
			a.signals <- syscall.SIGTERM
			r.says("a resigned")
			if res := a.ends(); !res.Resigned || !b.ends().Resigned {
				t.Errorf("%+v", res)
			}
		})
	}
}

// How a command ends that isn't started again.
func TestCommandThatEnds(t *testing.T) {
	for _, tc := range []struct {
		restart Restart
		script  string
		code    int
	}{
		{Never, "exit 0", 0}, {Never, "exit 7", 7}, {Never, "kill -KILL $$", 137}, {OnFailure, "exit 0", 0},
		{OnFailure, `[ -e "$1" ] && exit 0; : >"$1"; exit 7`, 0},
	} {
		r := newRace(t)
		marker := t.TempDir() + "/marker"
		a := r.enters("a", tc.script, func(o *Options, _ func(string) *Hook) {
			o.Restart = tc.restart
			o.Term.Command.Args = append(o.Term.Command.Args, "sh", marker)
		})
		if res := a.ends(); res.Resigned || res.Class != runner.Finished || res.Exit.Code != tc.code {
			t.Errorf("%s, %s: %+v", tc.restart, tc.script, res)
		}
	}
}

// What the hooks do holds nothing up: the one beside the command minds no TERM, and has started
// what minds none either; the other hangs. The next term begins all the same, and its own
// hook waits.
func TestHooksHoldNothingUp(t *testing.T) {
	r := newRace(t)
	const stubborn = `trap '' TERM; (setsid env -i sh -c 'trap "" TERM; exec sleep 300' &); echo elected $FLOCKD_TOKEN; while :; do sleep 0.01; done`
	a := r.enters("a", daemon("a"), func(o *Options, hook func(string) *Hook) {
		o.OnElected = hook(stubborn)
		o.OnDeposed = hook(`echo deposed; read l; echo over`)
	})
	words := func() map[string]string {
		got := map[string]string{}
		for range 2 {
			if !r.lines.Scan() {
				t.Fatal(r.lines.Err())
			}
			what, term, _ := strings.Cut(r.lines.Text(), " ")
			got[what] = term
		}
		return got
	}
	if got := words(); got["a"] != "leads "+got["elected"] {
		t.Errorf("%q", got)
	}
	lease := a.reaches("a term", func(s State) bool { return s.Phase == Leading }).Lease
	if err := r.store.Ask(t.Context(), r.Name(), lease.ID, backends.Notice{Kind: backends.Resign}); err != nil {
		t.Fatal(err)
	}
	r.says("a told")
	a.stdin.WriteString("\n")
	r.says("a ends")
	if got := words(); !strings.HasPrefix(got["a"], "leads ") || got["deposed"] != "" {
		t.Errorf("%q", got)
	}
	a.stdin.WriteString("\n")
	r.says("over")
	r.says("elected")
	a.signals <- syscall.SIGTERM
	r.says("a told")
	a.stdin.WriteString("\n")
	r.says("a ends")
	r.says("deposed")
	a.stdin.WriteString("\n")
	r.says("over")
	if res := a.ends(); !res.Resigned {
		t.Errorf("%+v", res)
	}
}
