package torture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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

const (
	askedA   = `{"request":"1.1","at":100,"op":"acquire","key":"k","id":"a","asked":1000}`
	grantedA = `{"request":"1.1","at":110,"outcome":"ok","token":1,"trusted":1000}`
	renewA   = `{"request":"1.2","at":500,"op":"renew","key":"k","id":"a","asked":1000}`
	renewedA = `{"request":"1.2","at":510,"outcome":"ok","token":1,"trusted":1000}`
)

func TestAcquireWithoutAnswerMayHaveBeenGranted(t *testing.T) {
	h := written(t, askedA,
		`{"request":"2.1","at":200,"op":"acquire","key":"k","id":"b","asked":1000}`,
		`{"request":"2.1","at":210,"outcome":"held","by":"a","by_token":1}`,
		`{"request":"3.1","at":1300,"op":"acquire","key":"k","id":"c","asked":1000}`,
		`{"request":"3.1","at":1310,"outcome":"ok","token":2,"trusted":1000}`)
	if err := checkModel(operations(h.all())); err != nil {
		t.Error(err)
	}
}

func TestAcquireIsGrantedByAnEarlierRequest(t *testing.T) {
	h := written(t, askedA,
		`{"request":"2.1","at":200,"op":"acquire","key":"k","id":"b","asked":1000}`,
		`{"request":"2.1","at":210,"outcome":"held","by":"a","by_token":1}`,
		`{"request":"1.2","at":300,"op":"acquire","key":"k","id":"a","asked":1000}`,
		`{"request":"1.2","at":310,"outcome":"ok","token":1,"trusted":1000}`)
	if err := checkModel(operations(h.all())); err != nil {
		t.Error(err)
	}
}

func TestReleaseWithoutAnswerMayHaveEndedTheHold(t *testing.T) {
	h := written(t, askedA, grantedA,
		`{"request":"1.2","at":200,"op":"release","key":"k","id":"a"}`,
		`{"request":"2.1","at":300,"op":"acquire","key":"k","id":"b","asked":1000}`,
		`{"request":"2.1","at":310,"outcome":"ok","token":2,"trusted":1000}`)
	if err := checkModel(operations(h.all())); err != nil {
		t.Error(err)
	}
}

func TestHoldOfNobodyIsSeen(t *testing.T) {
	h := written(t,
		`{"request":"2.1","at":200,"op":"acquire","key":"k","id":"b","asked":1000}`,
		`{"request":"2.1","at":210,"outcome":"held","by":"a","by_token":1}`)
	if checkModel(operations(h.all())) == nil {
		t.Error("a holder that never asked went unseen")
	}
}

func TestUnheardGrantLastsItsTime(t *testing.T) {
	h := written(t, askedA,
		`{"request":"2.1","at":200,"op":"acquire","key":"k","id":"b","asked":1000}`,
		`{"request":"2.1","at":210,"outcome":"held","by":"a","by_token":1}`,
		`{"request":"3.1","at":500,"op":"acquire","key":"k","id":"c","asked":1000}`,
		`{"request":"3.1","at":510,"outcome":"ok","token":2,"trusted":1000}`)
	if checkModel(operations(h.all())) == nil {
		t.Error("a grant within the lease of another, which nobody was told of, went unseen")
	}
}

func TestRenewalWithoutAnswerProvesNothing(t *testing.T) {
	h := written(t, askedA, grantedA, renewA)
	g := livesOf(h.all())["a"].grants[0]
	if got, want := g.validUntil(), int64(100+990); got != want {
		t.Errorf("valid until %d, want %d", got, want)
	}
}

func TestRenewalCountsFromItsSending(t *testing.T) {
	h := written(t, askedA, grantedA, renewA, renewedA)
	g := livesOf(h.all())["a"].grants[0]
	if got, want := g.validUntil(), int64(500+990); got != want {
		t.Errorf("valid until %d, want %d", got, want)
	}
}

// An acquire whose answer is lost can't be granted any more once its ID was released.
func TestGhostIsSeen(t *testing.T) {
	h := written(t, askedA,
		`{"request":"1.2","at":200,"op":"release","key":"k","id":"a"}`,
		`{"request":"1.2","at":210,"outcome":"ok"}`,
		`{"request":"2.1","at":300,"op":"acquire","key":"k","id":"b","asked":1000}`,
		`{"request":"2.1","at":310,"outcome":"held","by":"a","by_token":1}`)
	if checkModel(operations(h.all())) == nil {
		t.Error("a hold granted after its release went unseen")
	}
}

func TestGrantBeforeTheLeaseEndsIsSeen(t *testing.T) {
	h := written(t, askedA, grantedA, renewA, renewedA,
		`{"request":"2.1","at":1300,"op":"acquire","key":"k","id":"b","asked":1000}`,
		`{"request":"2.1","at":1310,"outcome":"ok","token":2,"trusted":1000}`)
	if checkModel(operations(h.all())) == nil {
		t.Error("a grant within the lease of another went unseen")
	}
}

func TestPlaceIsReleasedAfterALostHold(t *testing.T) {
	h := written(t, askedA, grantedA,
		`{"request":"2.1","at":1200,"op":"acquire","key":"k","id":"b","asked":1000}`,
		`{"request":"2.1","at":1210,"outcome":"ok","token":2,"trusted":1000}`,
		`{"request":"1.2","at":1300,"op":"acquire","key":"k","id":"a","asked":1000}`,
		`{"request":"1.2","at":1310,"outcome":"held","by":"b","by_token":2}`,
		`{"request":"1.3","at":1400,"op":"release","key":"k","id":"a"}`,
		`{"request":"1.3","at":1410,"outcome":"ok"}`)
	if err := checkModel(operations(h.all())); err != nil {
		t.Error(err)
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
