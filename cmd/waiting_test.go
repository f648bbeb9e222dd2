package cmd

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/runner"
)

// at is a local time so many seconds after a wait began.
func at(seconds int) time.Time { return time.Unix(0, 0).Add(time.Duration(seconds) * time.Second) }

func waitOf(key string) wait { return wait{key: key, began: at(0), answered: at(0)} }

// taken is what a store says at its time asOf.
func taken(ahead, waiters int, holders ...backends.Claim) *backends.HeldError {
	return &backends.HeldError{AsOf: asOf, Holders: holders, Ahead: ahead, Waiters: waiters}
}

func TestWaitingLine(t *testing.T) {
	inZone(t)
	w := waitOf("nightly")
	w.heard(at(0), taken(1, 3, holder()))
	for now, want := range map[int]string{
		0:   "waiting for nightly: held by root@web2 (pid 4711, report.sh) for 2d3h, since 2026-11-27 01:00:02 +0800; renewed 12s ago; place 2 of 4",
		300: "waiting for nightly: held by root@web2 (pid 4711, report.sh) for 2d3h, since 2026-11-27 01:00:02 +0800; renewed 5m12s ago; place 2 of 4; waited 5m",
	} {
		if got := w.line(at(now)); got != want {
			t.Errorf("after %d s\n got %s\nwant %s", now, got, want)
		}
	}
}

// A line says what fits, the most important first, and is never too long.
func TestWaitingRow(t *testing.T) {
	inZone(t)
	noted := holder()
	noted.Owner.Note = "release 4.2"
	w := waitOf("deploy/web")
	w.heard(at(2), taken(1, 3, noted))
	for _, c := range []struct {
		columns int
		want    string
	}{
		{200, "flockd: waiting 1m12s for deploy/web, place 2 of 4: held by root@web2 (pid 4711, report.sh, note: release 4.2) for 2d3h, since 2026-11-27 01:00:02 +0800"},
		{120, "flockd: waiting 1m12s for deploy/web, place 2 of 4: held by root@web2 (pid 4711, report.sh) for 2d3h"},
		{90, "flockd: waiting 1m12s, place 2 of 4: held by root@web2 (pid 4711, report.sh) for 2d3h"},
		{77, "flockd: waiting 1m12s, place 2 of 4: held by root@web2 for 2d3h"},
		{60, "flockd: waiting 1m12s: held by root@web2 for 2d3h"},
		{40, "flockd: waiting 1m12s: held by root@w..."},
		{10, "flockd:..."}, {3, "..."}, {1, "."}, {0, ""}, {-2, ""},
	} {
		if got := w.row(at(72), c.columns, clean); got != c.want {
			t.Errorf("%d columns\n got %s\nwant %s", c.columns, got, c.want)
		}
	}
	for columns, want := range map[int]bool{200: false, 152: false, 151: true, 80: true} {
		if got := w.cutsNote(at(72), columns, clean); got != want {
			t.Errorf("%d columns have room for the note: %v", columns, !got)
		}
	}
	plain := waitOf("deploy/web")
	plain.heard(at(2), taken(1, 3, holder()))
	if plain.cutsNote(at(72), 40, clean) {
		t.Error("there is no note")
	}
	if got := w.row(at(3672), 77, clean); got != "flockd: waiting 1h1m, place 2 of 4: held by root@web2 for 2d4h" {
		t.Errorf("an hour later, without another answer: %s", got)
	}
}

func TestInTheWay(t *testing.T) {
	inZone(t)
	cooling, next := holder(), holder()
	cooling.State = backends.Cooling
	for want, held := range map[string]*backends.HeldError{
		"held by root@web2 for 2d3h":                                  taken(0, 0, holder()),
		"held by root@web2 and 1 more for 2d3h":                       taken(0, 0, holder(), holder()),
		"cooling for another 1m after root@web2 for 2d3h":             taken(0, 0, cooling),
		"nobody holds it, next in line is root@web2 in line for 2d4h": {AsOf: asOf, Next: &next},
		"taken": taken(0, 0),
	} {
		if got := inTheWay(held, onlooker, namesOnly); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}

// What a store said before it fell silent isn't told as if it were so now.
func TestWaitingForASilentStore(t *testing.T) {
	inZone(t)
	w := waitOf("k")
	w.heard(at(2), nil)
	if got := w.row(at(9), 200, clean); got != "" {
		t.Errorf("nothing is known: %s", got)
	}
	if got, want := w.row(at(10), 200, clean), "flockd: waiting 10s for k: no answer from the store for 10s"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	w.heard(at(20), taken(0, 0, holder()))
	w.heard(at(25), nil)
	if got := w.row(at(29), 200, clean); strings.Contains(got, "no answer") {
		t.Errorf("one lost question: %s", got)
	}
	want := "no answer from the store for 1h; before that held by root@web2 (pid 4711, report.sh) for 2d3h, since 2026-11-27 01:00:02 +0800"
	if got := w.row(at(3620), 200, clean); got != "flockd: waiting 1h for k: "+want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if got := w.line(at(3620)); got != "waiting for k: "+want+"; waited 1h" {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	w.heard(at(3621), taken(0, 0, holder()))
	if got := w.row(at(3650), 200, clean); strings.Contains(got, "no answer") {
		t.Errorf("it has answered: %s", got)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"abcdef", 6, "abcdef"}, {"abcdefg", 6, "abc..."},
		{"漢字漢字", 8, "漢字漢字"}, {"漢字漢字", 7, "漢字..."}, {"漢字漢字", 6, "漢..."},
		{"e\u0301e\u0301e\u0301", 5, "e\u0301..."}, {"🎉🎉🎉", 5, "🎉..."}, {"日本", 3, "..."},
	} {
		got := cut(c.text, c.columns)
		if got != c.want || columnsOf(got) > c.columns {
			t.Errorf("%q in %d columns: %q", c.text, c.columns, got)
		}
	}
}

// shown is when a wait is told of in lines, with answers every five seconds.
func shown(until int, answer func(second int) *backends.HeldError) (seconds []int) {
	w, last := waitOf("k"), told{}
	for now := 0; now <= until; now += 5 {
		w.heard(at(now), answer(now))
		if s := w.standing(at(now)); last.due(at(now), s) {
			last = told{at(now), s}
			seconds = append(seconds, now)
		}
	}
	return seconds
}

func TestWaitingIsToldNowAndThen(t *testing.T) {
	held := func(ahead, waiters int, id string) *backends.HeldError {
		c := holder()
		c.ID = id
		return taken(ahead, waiters, c)
	}
	for _, c := range []struct {
		name   string
		answer func(now int) *backends.HeldError
		want   []int
	}{
		{"nothing changes but those behind", func(now int) *backends.HeldError { return held(1, 1+now, "a") }, []int{0, 300, 600}},
		{"our place moves, once soon and once late", func(now int) *backends.HeldError { return held(9-min(now/10, 1)-min(now/400, 1), 9, "a") }, []int{0, 30, 330, 400}},
		{"others hold it all the time", func(now int) *backends.HeldError { return held(1, 1, string(rune('a'+now/5))) }, []int{0, 30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 330, 360, 390, 420, 450, 480, 510, 540, 570, 600}},
		{"a change that is undone", func(now int) *backends.HeldError { return held(now/10%2-min(now/20, 1)*(now/10%2), 3, "a") }, []int{0, 300, 600}},
		{"one lost question", func(now int) *backends.HeldError {
			if now == 100 {
				return nil
			}
			return held(0, 0, "a")
		}, []int{0, 300, 600}},
		{"silent from 100 to 200", func(now int) *backends.HeldError {
			if now >= 100 && now < 200 {
				return nil
			}
			return held(0, 0, "a")
		}, []int{0, 105, 200, 500}},
		{"never an answer", func(int) *backends.HeldError { return nil }, []int{10, 310}},
		{"a late first one", func(now int) *backends.HeldError {
			if now < 5 {
				return nil
			}
			return held(0, 0, "a")
		}, []int{5, 305}},
	} {
		got, _ := json.Marshal(shown(600, c.answer))
		if want, _ := json.Marshal(c.want); string(got) != string(want) {
			t.Errorf("%s: told at %s, want %s", c.name, got, want)
		}
	}
}

// waits is what a run with these options says of a wait that is told of by tell.
func waits(o *runOptions, tell func(*lockedRun)) string {
	var b bytes.Buffer
	l := newLines(&b)
	o.key, o.backend = "k", &backends.URL{}
	r := &lockedRun{app: &app{lines: l, print: newPrinter(l, o.json, o.quiet, o.verbose)}, runOptions: o, file: &resultFile{}, began: time.Now()}
	tell(r)
	r.onWaited(runner.Skipped)
	l.flush()
	return b.String()
}

func TestWaitingOnNoTerminal(t *testing.T) {
	inZone(t)
	twice := func(r *lockedRun) {
		r.onWait(nil)
		r.onWait(taken(1, 2, holder()))
		r.onWait(taken(0, 1, holder()))
	}
	if got := waits(&runOptions{}, twice); !strings.HasPrefix(got, "flockd: waiting for k: held by root@web2 ") || strings.Count(got, "\n") != 1 || !strings.HasSuffix(got, "; place 2 of 3\n") {
		t.Errorf("%q", got)
	}
	if got := waits(&runOptions{quiet: true}, twice); got != "" {
		t.Errorf("with -q: %q", got)
	}
	var record struct {
		Msg            string
		Waited         string
		Waiting, Ahead int
		HeldBy         []backends.Claim `json:"held_by"`
	}
	got := waits(&runOptions{json: true}, twice)
	if err := json.Unmarshal([]byte(got), &record); err != nil || record.Waiting != 2 || record.Ahead != 1 || record.Waited == "" || record.HeldBy[0].Owner.PID != 4711 {
		t.Errorf("%v: %s", err, got)
	}
	silent := func(r *lockedRun) {
		r.began = r.began.Add(-time.Hour)
		r.onWait(nil)
	}
	if got := waits(&runOptions{}, silent); got != "flockd: waiting for k: no answer from the store for 1h; waited 1h\n" {
		t.Errorf("%q", got)
	}
	if got := waits(&runOptions{json: true}, silent); !strings.Contains(got, `"silent":"1h0m0`) {
		t.Errorf("%s", got)
	}
}

// The live line is drawn anew each second, and no more after the end.
func TestWaitingTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var drawn atomic.Int64
		w := &waiting{redraw: func() { drawn.Add(1) }, over: make(chan struct{})}
		go w.tick()
		time.Sleep(10*time.Second + time.Millisecond)
		w.end()
		time.Sleep(time.Minute)
		if n := drawn.Load(); n != 11 {
			t.Errorf("drawn %d times, want 10 and once more at the end", n)
		}
	})
}
