//go:build linux

package testscripts

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const signalsPage = "../docs/signals.md"

// What docs/signals.md says in its table is what happens: each cell is carried out.
func TestSignalsTable(t *testing.T) {
	t.Parallel()
	table, used := signalsTable(t), map[string]bool{}
	for _, row := range table[1:] {
		for column, word := range row[1:] {
			used[word] = true
			for name := range strings.SplitSeq(row[0], ", ") {
				carryOut(t, name, table[0][column+1], word)
			}
		}
	}
	for word := range outcomes {
		if !used[word] {
			t.Errorf("nothing is said to be %q any more", word)
		}
	}
}

func carryOut(t *testing.T, name, state, word string) {
	arrange, outcome, sig := states[state], outcomes[word], unix.SignalNum("SIG"+name)
	if arrange == nil || outcome == nil || sig == 0 {
		t.Errorf("who knows what %q does when it is %q: %q?", name, state, word)
		return
	}
	t.Run(name+" "+state, func(t *testing.T) {
		t.Parallel()
		m := arrange(t)
		m.state, m.signal = state, sig
		m.settle()
		m.forgetHeard()
		outcome(m)
	})
}

// signalsTable is the table below the page's first heading: the states, then a row of
// words for some signals each.
func signalsTable(t *testing.T) (table [][]string) {
	page, err := os.ReadFile(signalsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## What each does\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		if cells, ok := strings.CutPrefix(strings.TrimSuffix(line, " |\n"), "| "); ok && !strings.HasPrefix(cells, "---") {
			table = append(table, strings.Split(cells, " | "))
		}
	}
	if len(table) < 2 || slices.ContainsFunc(table, func(row []string) bool { return len(row) != len(table[0]) }) {
		t.Fatalf("that is no table: %q", table)
	}
	return table
}

// Each word and each state of the table is explained below it.
func TestSignalsTableIsExplained(t *testing.T) {
	page, err := os.ReadFile(signalsPage)
	if err != nil {
		t.Fatal(err)
	}
	for name := range outcomes {
		if !regexp.MustCompile(`\n- \*\*` + name + `\*\*`).Match(page) {
			t.Errorf("%q is not explained", name)
		}
	}
	for name := range states {
		if !strings.Contains(string(page), "**"+name+"**") && !strings.Contains(string(page), "**"+strings.TrimPrefix(name, "runs, ")+"**") {
			t.Errorf("%q is not explained", name)
		}
	}
}

// outcomes are the words of the table.
var outcomes = map[string]func(*moment){
	"ends": func(m *moment) {
		m.send(m.signal)
		m.job.ends(128 + int(m.signal)).says("stopped waiting")
		m.nothingStarted()
		if n := m.claims("k"); m.state == "in line" && n != 1 {
			m.Errorf("%d claims", n)
		}
	},
	"kept": func(m *moment) {
		m.send(m.signal)
		m.settle()
		m.goOn()
		until(m, "the signal", func() bool { return m.pends(m.signal) })
	},
	"dropped": func(m *moment) {
		m.send(m.signal)
		m.settle()
		m.goOn()
		m.await("pid")
		m.send(m.next())
		until(m, "the next signal", func() bool { return m.pends(m.next()) })
		if m.pends(m.signal) {
			m.Error("the command has got it")
		}
	},
	"passed":     func(m *moment) { m.send(m.signal); m.heard(m.signal) },
	"not passed": func(m *moment) { m.send(m.signal); m.heard() },
	"waits": func(m *moment) {
		m.send(m.signal)
		m.bothStopped()
		m.send(syscall.SIGCONT)
		m.hears(m.signal)
	},
	"goes on":    func(m *moment) { m.send(m.signal); m.bothGoOn() },
	"stops both": func(m *moment) { m.send(m.signal); m.bothStopped() },
	"stops them": func(m *moment) {
		m.send(m.signal)
		m.hears(syscall.SIGTERM)
		m.job.ends(0)
		m.dead(m.command)
	},
	"freezes": func(m *moment) {
		m.send(m.signal)
		until(m, "stopped", func() bool { return state(m.flockd) == 'T' })
		if m.command != 0 && state(m.command) == 'T' {
			m.Error("the command is stopped")
		}
		m.send(syscall.SIGCONT)
		until(m, "going on", func() bool { return state(m.flockd) != 'T' })
	},
	"nothing": func(m *moment) {
		m.send(m.signal)
		m.bothStopped()
		m.send(syscall.SIGCONT)
		m.bothGoOn()
		m.settle()
		if heard := m.record(); slices.ContainsFunc(heard, func(name string) bool { return name != "SIGCONT" }) {
			m.Errorf("it heard %q", heard)
		}
	},
	"kills": func(m *moment) { m.send(m.signal); m.dead(m.flockd); m.nothingStarted() },
	"the guard": func(m *moment) {
		m.send(m.signal)
		m.dead(m.flockd)
		m.dead(m.command)
		until(m, "the key given back", func() bool { return m.claims("k") == 0 })
	},
	"runs on": func(m *moment) {
		m.send(m.signal)
		m.dead(m.flockd)
		unix.Kill(m.command, syscall.SIGUSR1)
		m.hears(syscall.SIGUSR1)
	},
}
