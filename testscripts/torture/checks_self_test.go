//go:build linux

package torture

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/testscripts/torture/trace"
)

// written is a history that a tracer could have written.
func written(t *testing.T, events ...string) *history {
	t.Helper()
	name := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(name, []byte(strings.Join(events, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := openHistory(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.catchUp(); err != nil {
		t.Fatal(err)
	}
	return h
}

// These are of one key. a asks for it at 100, b and c do later, each for a lease of 1000.
// c is early within the lease of a, and late after it, unless a has renewed.
const (
	askedA   = `{"request":"1.1","at":100,"op":"acquire","key":"k","id":"a","asked":1000}`
	grantedA = `{"request":"1.1","at":110,"outcome":"ok","token":1,"trusted":1000}`
	renewA   = `{"request":"1.2","at":500,"op":"renew","key":"k","id":"a","asked":1000}`
	renewedA = `{"request":"1.2","at":510,"outcome":"ok","token":1,"trusted":1000}`

	askedB     = `{"request":"2.1","at":200,"op":"acquire","key":"k","id":"b","asked":1000}`
	refusedB   = `{"request":"2.1","at":210,"outcome":"held","by":"a","by_token":1}`
	releaseA   = `{"request":"1.3","at":300,"op":"release","key":"k","id":"a"}`
	releasedA  = `{"request":"1.3","at":310,"outcome":"ok"}`
	askedEarly = `{"request":"3.1","at":500,"op":"acquire","key":"k","id":"c","asked":1000}`
	grantEarly = `{"request":"3.1","at":510,"outcome":"ok","token":2,"trusted":1000}`
	askedLate  = `{"request":"3.1","at":1300,"op":"acquire","key":"k","id":"c","asked":1000}`
	grantLate  = `{"request":"3.1","at":1310,"outcome":"ok","token":2,"trusted":1000}`
)

// TestHistories has the model judge what tracers have written down.
func TestHistories(t *testing.T) {
	for _, c := range []struct {
		name    string
		history []string
		want    bool // whether a lock can have answered so
	}{
		{"an acquire without an answer may have been granted",
			[]string{askedA, askedB, refusedB, askedLate, grantLate}, true},
		{"an acquire is granted by an earlier request", []string{askedA, askedB, refusedB,
			`{"request":"1.2","at":300,"op":"acquire","key":"k","id":"a","asked":1000}`,
			`{"request":"1.2","at":310,"outcome":"ok","token":1,"trusted":1000}`}, true},
		{"a release without an answer may have ended the hold",
			[]string{askedA, grantedA, releaseA, askedEarly, grantEarly}, true},
		{"a place is released after a lost hold", []string{askedA, grantedA, askedLate, grantLate,
			`{"request":"1.2","at":1400,"op":"acquire","key":"k","id":"a","asked":1000}`,
			`{"request":"1.2","at":1410,"outcome":"held","by":"c","by_token":2}`,
			`{"request":"1.3","at":1500,"op":"release","key":"k","id":"a"}`,
			`{"request":"1.3","at":1510,"outcome":"ok"}`}, true},
		{"a holder that never asked", []string{askedB, refusedB}, false},
		{"a grant within the lease of another, which nobody was told of",
			[]string{askedA, askedB, refusedB, askedEarly, grantEarly}, false},
		{"an acquire without an answer, granted after its release", []string{askedA, releaseA, releasedA,
			`{"request":"2.1","at":400,"op":"acquire","key":"k","id":"b","asked":1000}`,
			`{"request":"2.1","at":410,"outcome":"held","by":"a","by_token":1}`}, false},
		{"a grant within the renewed lease of another",
			[]string{askedA, grantedA, renewA, renewedA, askedLate, grantLate}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := checkModel(operations(written(t, c.history...).all())); (err == nil) != c.want {
				t.Errorf("possible = %v: %v", !c.want, err)
			}
		})
	}
}

func TestValidUntil(t *testing.T) {
	for _, c := range []struct {
		name    string
		history []string
		want    int64
	}{
		{"a renewal without an answer proves nothing", []string{askedA, grantedA, renewA}, 100 + 990},
		{"a renewal counts from its sending", []string{askedA, grantedA, renewA, renewedA}, 500 + 990},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := livesOf(written(t, c.history...).all())["a"].grants[0].validUntil(); got != c.want {
				t.Errorf("valid until %d, want %d", got, c.want)
			}
		})
	}
}

func TestAnswerToNothingIsRefused(t *testing.T) {
	h := &history{open: map[string]*request{}, byPID: map[int][]*request{}}
	if err := h.add([]byte(grantedA)); err == nil {
		t.Error("a history with a hole was read")
	}
}

func TestSpans(t *testing.T) {
	one, two := &span{key: "k", id: "a", token: 1, first: 100, last: 500}, &span{key: "k", id: "b", token: 2, first: 600, last: 700}
	if err := checkSpans([]*span{two, one}); err != nil {
		t.Error(err)
	}
	one.last = 650
	if checkSpans([]*span{two, one}) == nil {
		t.Error("two commands at a time went unseen")
	}
	one.key, two.key = mixing, mixing
	if err := checkSpans([]*span{two, one}); err != nil || together([]*span{two, one}) != 1 {
		t.Errorf("of a mixed key: %v", err)
	}
}

func TestDeadlines(t *testing.T) {
	lives := livesOf(written(t, askedA, grantedA).all())
	s := &span{key: "k", id: "a", token: 1, first: 120, last: 1089}
	if left, err := checkDeadlines([]*span{s}, lives); err != nil || left != 1 {
		t.Errorf("%v left: %v", left, err)
	}
	s.last = 1090
	if _, err := checkDeadlines([]*span{s}, lives); err == nil {
		t.Error("a command that outlived its lease went unseen")
	}
	s.token = 2
	if _, err := checkDeadlines([]*span{s}, lives); err == nil {
		t.Error("a command without a grant went unseen")
	}
}

func TestReleases(t *testing.T) {
	lives := livesOf(written(t, askedA, grantedA, releaseA, releasedA).all())
	s := &span{key: "k", id: "a", token: 1, first: 120, last: 299}
	if err := checkReleases([]*span{s}, lives); err != nil {
		t.Error(err)
	}
	s.last = 300
	if checkReleases([]*span{s}, lives) == nil {
		t.Error("a key that was given back before its command was dead went unseen")
	}
}

func TestInheritance(t *testing.T) {
	for _, c := range []struct {
		name    string
		history []string
		want    inheritance
	}{
		{"given back", []string{askedA, grantedA, releaseA, releasedA}, inheritance{1, 1, []time.Duration{110}}},
		{"not given back", []string{askedA, grantedA}, inheritance{1, 0, nil}},
		{"asked for", []string{askedA, grantedA, releaseA}, inheritance{1, 1, nil}},
		{"asked for too late", []string{askedA, grantedA,
			`{"request":"1.3","at":1200,"op":"release","key":"k","id":"a"}`}, inheritance{1, 0, nil}},
		{"given back by its flockd", []string{askedA, grantedA,
			`{"request":"1.3","at":150,"op":"release","key":"k","id":"a"}`}, inheritance{}},
		{"not held", []string{askedA}, inheritance{}},
		{"over", []string{`{"request":"1.1","at":1,"op":"acquire","key":"k","id":"a","asked":100}`,
			`{"request":"1.1","at":2,"outcome":"ok","token":1,"trusted":100}`}, inheritance{}},
	} {
		killed := []exit{{job: &job{session: 1, alone: 200}}, {job: &job{session: 1, began: 400}}}
		ran := []*span{{key: "k", id: "a", token: 1, first: 120, last: 210}, {key: "k", id: "other", token: 2, first: 120, last: 210}}
		got := inherit(killed, ran, livesOf(written(t, c.history...).all()))
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		holds, asked int
		ok           bool
	}{{0, 0, true}, {1, 0, false}, {2, 0, false}, {3, 2, true}, {3, 1, false}, {4, 2, false}, {8, 6, true}, {8, 5, false}} {
		if err := (inheritance{holds: c.holds, asked: c.asked}).check(); (err == nil) != c.ok {
			t.Errorf("%d of %d: %v", c.asked, c.holds, err)
		}
	}
}

func TestTokens(t *testing.T) {
	grants := []*grant{
		{key: "k", token: 7, sent: 10, told: 20}, {key: "k", token: 8, sent: 21, told: 30}, {key: "other", token: 1, sent: 40, told: 41},
	}
	if err := checkTokens(grants); err != nil {
		t.Error(err)
	}
	for _, token := range []backends.Token{3, 8} {
		if checkTokens(append(grants, &grant{key: "k", token: token, sent: 31, told: 32})) == nil {
			t.Errorf("a grant under %d went unseen", token)
		}
	}
}

func TestOutcomeOfNoAnswer(t *testing.T) {
	if got := (&request{}).outcome(); got != trace.Unknown {
		t.Errorf("no answer is %q", got)
	}
}
