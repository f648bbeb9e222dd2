package runner

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"flockd/backends"
)

// The figures are worked out by hand from the rule, in microseconds and cut off.
func TestTimeLine(t *testing.T) {
	const us = time.Microsecond
	for _, tc := range []struct {
		ttl                                                       time.Duration
		reap, grace, term, kill, valid, renewal, attempt, another time.Duration
	}{
		{time.Second, 250_000 * us, 106_666 * us, 633_333 * us, 740_000 * us, 990_000 * us, 333_333 * us, 125_000 * us, 50_000 * us},
		{2 * time.Second, 250_000 * us, 500_000 * us, 1_230_000 * us, 1_730_000 * us, 1_980_000 * us, 666_666 * us, 250_000 * us, 50_000 * us},
		{4 * time.Second, 250_000 * us, 1_000_000 * us, 2_710_000 * us, 3_710_000 * us, 3_960_000 * us, 1_333_333 * us, 500_000 * us, 100_000 * us},
		{10 * time.Second, 250_000 * us, 2_500_000 * us, 7_150_000 * us, 9_650_000 * us, 9_900_000 * us, 3_333_333 * us, 1_250_000 * us, 250_000 * us},
		{time.Minute, 600_000 * us, 10_000_000 * us, 48_800_000 * us, 58_800_000 * us, 59_400_000 * us, 20_000_000 * us, 7_500_000 * us, 1_500_000 * us},
		{5 * time.Minute, 3_000_000 * us, 10_000_000 * us, 284_000_000 * us, 294_000_000 * us, 297_000_000 * us, 30_000_000 * us, 37_500_000 * us, 7_500_000 * us},
		{10 * time.Minute, 6_000_000 * us, 10_000_000 * us, 578_000_000 * us, 588_000_000 * us, 594_000_000 * us, 30_000_000 * us, 75_000_000 * us, 15_000_000 * us},
	} {
		got, err := NewTiming(tc.ttl, DefaultGrace)
		if err != nil {
			t.Errorf("%v: %v", tc.ttl, err)
		}
		for _, f := range []struct {
			name      string
			got, want time.Duration
		}{
			{"K", got.Reap, tc.reap}, {"G", got.Grace, tc.grace}, {"TERM", got.Term, tc.term}, {"KILL", got.Kill, tc.kill},
			{"valid until", got.ValidUntil, tc.valid}, {"renew", got.Renew, tc.renewal}, {"attempt", got.Attempt, tc.attempt},
			{"retry", got.Retry, tc.another}, {"trusted", got.Trusted, tc.ttl},
		} {
			if f.got.Truncate(us) != f.want {
				t.Errorf("TTL %v: %s = %v, want %v", tc.ttl, f.name, f.got, f.want)
			}
		}
	}
}

// ttls are the TTLs that properties are tried at: the edges of the rule's
// minima and maxima and a sample of the rest.
func ttls() []time.Duration {
	all := []time.Duration{time.Second, 1500 * time.Millisecond, 2 * time.Second, 4 * time.Second, 25 * time.Second, 40 * time.Second, 90 * time.Second, 24 * time.Hour}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		all = append(all, time.Second<<rnd.IntN(16)+time.Duration(rnd.Int64N(int64(time.Second))))
	}
	return all
}

func TestTwoFullAttemptsFitBeforeTerm(t *testing.T) {
	for _, ttl := range ttls() {
		timing, err := NewTiming(ttl, DefaultGrace)
		if err != nil {
			t.Fatalf("%v: %v", ttl, err)
		}
		if end := timing.Renew + timing.Attempt + timing.Retry + timing.Attempt; end > timing.Term {
			t.Errorf("TTL %v: the second attempt ends at %v, after TERM at %v", ttl, end, timing.Term)
		}
	}
}

func TestGraceThatDoesNotFit(t *testing.T) {
	for _, tc := range []struct {
		ttl, grace, largest, fits time.Duration
	}{
		// 60 − 20 − 15 − 1.5 − 0.6 − 0.6 = 22.3; 30 s is 0.371667 of 80.7 s.
		{time.Minute, 30 * time.Second, 22_300 * time.Millisecond, 81 * time.Second},
		{time.Second, time.Second, 106 * time.Millisecond, 3300 * time.Millisecond},
		{5 * time.Second, 10 * time.Second, 1658 * time.Millisecond, 27 * time.Second},
		{time.Minute, 10 * time.Minute, 22_300 * time.Millisecond, 27 * time.Minute},
	} {
		_, err := NewTiming(tc.ttl, tc.grace)
		var got *GraceError
		if !errors.As(err, &got) {
			t.Fatalf("TTL %v, grace %v: %v", tc.ttl, tc.grace, err)
		}
		want := GraceError{Grace: tc.grace, TTL: tc.ttl, Largest: tc.largest, Fits: tc.fits}
		if *got != want {
			t.Errorf("got %+v, want %+v", *got, want)
		}
		if _, err := NewTiming(tc.fits, tc.grace); err != nil {
			t.Errorf("the TTL that fits doesn't: %v", err)
		}
		if _, err := NewTiming(tc.ttl, tc.largest); err != nil {
			t.Errorf("the largest grace doesn't fit: %v", err)
		}
		if _, err := NewTiming(tc.ttl, tc.largest+time.Millisecond); err == nil {
			t.Errorf("TTL %v bears more than %v", tc.ttl, tc.largest)
		}
		for _, figure := range []time.Duration{tc.grace, tc.ttl, tc.largest, tc.fits} {
			if !strings.Contains(err.Error(), figure.String()) {
				t.Errorf("%q doesn't name %v", err, figure)
			}
		}
	}
}

func TestTTLThatIsTooShort(t *testing.T) {
	_, err := NewTiming(500*time.Millisecond, DefaultGrace)
	if want := "a TTL of 500ms is too short, the shortest is 800ms"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestTimingCountsTheSlack(t *testing.T) {
	tick := backends.Traits{Slack: func(ttl time.Duration) time.Duration { return max(2*time.Second, ttl/20) }}
	timing, err := TimingOf(tick, 12*time.Second, DefaultGrace)
	if err != nil || timing.Trusted != 10*time.Second || timing.Kill != 9650*time.Millisecond {
		t.Errorf("got %+v, %v", timing, err)
	}
	var grace *GraceError
	if _, err := TimingOf(tick, time.Minute, 30*time.Second); !errors.As(err, &grace) || grace.TTL != time.Minute || grace.Fits != 85*time.Second {
		t.Errorf("got %+v", err)
	}
}
