package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

// TestMonthOfCron is a daily job in the crontab of three hosts, for a month in which the
// zone's clocks change. The hosts' clocks are up to 20 s fast or slow, another way each
// day, and each host may fail: one of them often.
func TestMonthOfCron(t *testing.T) {
	for _, m := range months {
		t.Run(m.name, func(t *testing.T) {
			for seed := range uint64(5) {
				s := m.live(t, seed)
				for _, day := range s.days {
					if s.succeeded[day] > 1 || s.succeeded[day] == 0 && s.able[day] {
						t.Errorf("seed %d, %s: succeeded %d times", seed, day, s.succeeded[day])
					}
				}
				if len(s.wrong) > 0 {
					t.Errorf("seed %d: %s", seed, strings.Join(s.wrong, ", "))
				}
				s.shows(t, seed)
			}
		})
	}
}

// TestMonthOfCronWithout: what the flags are for.
func TestMonthOfCronWithout(t *testing.T) {
	m := months[0]
	m.perfect = true // nobody fails: the clocks alone do it
	plain, leadless, elsewhere := m, m, m
	plain.again, plain.wait = true, 0
	leadless.lead = 0
	elsewhere.utc = true
	if s := plain.live(t, 1); s.most() < 2 {
		t.Error("without --once no day had two runs")
	}
	if s := leadless.live(t, 1); len(s.wrong) == 0 || s.most() < 2 {
		t.Error("with --once-lead 0 no day had the run of another")
	}
	if s := elsewhere.live(t, 1); len(s.wrong) == 0 {
		t.Error("with days of UTC no day had the run of another")
	}
}

// month is what a crontab has hosts do.
type month struct {
	name    string
	zone    string
	of      time.Month // of 2000, the year of a bubble
	at      string     // the end of "15:04" when it is due
	wait    time.Duration
	lead    time.Duration
	utc     bool // the days are of UTC, and not of the zone
	again   bool // without once
	perfect bool // no host fails
}

var months = []month{
	{name: "summer time begins", zone: "Europe/Berlin", of: time.March, at: "00:00", lead: 30 * sec, wait: 12 * time.Hour},
	{name: "an hour comes twice", zone: "America/New_York", of: time.October, at: "01:30", lead: 30 * sec, wait: 12 * time.Hour},
	{name: "a day without a midnight", zone: "America/Sao_Paulo", of: time.October, at: "00:00", lead: 30 * sec, wait: 12 * time.Hour},
	{name: "the last hour comes twice", zone: "America/Sao_Paulo", of: time.February, at: "00:00", lead: 30 * sec, wait: 12 * time.Hour},
	{name: "no summer time", zone: "UTC", of: time.February, at: "00:00", lead: 30 * sec, wait: 12 * time.Hour},
	{name: "tried each hour without waiting", zone: "Europe/Berlin", of: time.March, at: ":00", lead: 30 * sec},
}

// due are the instants of the month at which the wall clock shows the time: none or two
// of a day may be.
func (m month) due(zone *time.Location) (due []time.Time) {
	for at := time.Date(2000, m.of, 1, 0, 0, 0, 0, zone); at.Month() == m.of; at = at.Add(time.Minute) {
		if strings.HasSuffix(at.Format("15:04"), m.at) {
			due = append(due, at)
		}
	}
	return due
}

// live goes through the month.
func (m month) live(t *testing.T, seed uint64) *seen {
	t.Helper()
	zone, err := time.LoadLocation(m.zone)
	if err != nil {
		t.Fatal(err)
	}
	s := &seen{succeeded: map[string]int{}, able: map[string]bool{}, fates: map[fate]int{}}
	synctest.Test(t, func(t *testing.T) {
		r, store := rand.New(rand.NewPCG(seed, 0)), mem.New()
		bad := r.IntN(3)
		var hosts sync.WaitGroup
		for _, due := range m.due(zone) {
			day := due.Format("2006-01-02")
			if len(s.days) == 0 || s.days[len(s.days)-1] != day {
				s.days = append(s.days, day)
			}
			for number := range 3 {
				h := &host{month: m, store: store, due: due, day: day, seen: s, number: number}
				h.draw(r, number == bad)
				s.add(h)
				hosts.Go(func() { h.cron(t) })
			}
		}
		hosts.Wait()
	})
	return s
}

// fate is what happens to a host's run.
type fate string

const (
	works   fate = "works"
	fails   fate = "fails"   // the command does
	crashes fate = "crashes" // the host: nobody gives back what it had
	killed  fate = "killed"  // flockd: the guard gives it back
	late    fate = "late"    // it was down for half an hour
	down    fate = "down"    // all day
)

// host is one at one time that it is due.
type host struct {
	month
	store  *mem.Store
	seen   *seen
	due    time.Time
	day    string // of due
	number int

	fate    fate
	begins  time.Time
	takes   time.Duration
	minHold time.Duration
	ends    time.Duration // after begins, for those that are killed
	dead    atomic.Bool
	lease   atomic.Pointer[backends.Lease] // nil until its command runs
}

// draw tells a host its fate.
func (h *host) draw(r *rand.Rand, bad bool) {
	fates := []fate{works, works, works, works, works, works, works, works, late, fails, crashes, killed}
	if bad {
		fates = []fate{works, late, fails, fails, fails, crashes, killed, killed, down, down}
	}
	if h.perfect {
		fates = []fate{works}
	}
	h.fate = fates[r.IntN(len(fates))]
	h.begins = h.due.Add(time.Duration(r.Int64N(int64(40*sec))) - 20*sec)
	if h.fate == late {
		h.begins = h.begins.Add(30 * time.Minute)
	}
	h.takes = []time.Duration{sec, sec, sec, time.Minute, 20 * time.Minute}[r.IntN(5)]
	h.minHold = []time.Duration{0, time.Minute}[r.IntN(2)]
	h.ends = time.Duration(r.Int64N(int64(h.takes + 40*sec)))
	if h.perfect {
		h.takes, h.minHold = sec, 0
	}
}

// once is --once-per day --tz ZONE.
func (h *host) once() *backends.Once {
	o := &backends.Once{Per: backends.Period{Unit: backends.Day}, Lead: h.lead}
	if !h.utc {
		o.Zone = h.due.Location()
	}
	return o
}

// cron starts the host's run when its clock says so.
func (h *host) cron(t *testing.T) {
	time.Sleep(time.Until(h.begins))
	if h.fate == down {
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fake, clock := newFake(), newClock()
	o := Options{
		Backend: h.reach(),
		Request: request(backends.NewID()), Wait: h.wait, Grace: DefaultGrace, Log: quiet,
		OnStart: func(lease backends.Lease) { h.runs(lease, fake) },
	}
	o.Request.MinHold, o.Request.TTL = h.minHold, 5*time.Minute
	if !h.again {
		o.Request.Once = h.once()
	}
	if h.fate == crashes || h.fate == killed {
		after(h.ends, func() { h.die(fake); cancel() })
	}
	r := &run{o: o.withDefaults(), clock: clock.now, tick: tick, plant: nobody, serve: unasked, start: func(launch) (process, error) { return fake, nil }}
	if res := r.run(ctx); h.fate == works && res.Class != Finished && res.Class != Done && (res.Class != Skipped || h.wait != 0) {
		t.Errorf("%s, host %d: %+v", h.day, h.number, res)
	}
}

// runs has the command end by itself after some time.
func (h *host) runs(lease backends.Lease, fake *fakeProcess) {
	h.lease.Store(&lease)
	if lease.Run != h.day && lease.Run != "" {
		h.seen.note(func(s *seen) { s.wrong = append(s.wrong, fmt.Sprintf("%s ran for %s", h.day, lease.Run)) })
	}
	after(h.takes, func() {
		exit := Exit{Started: time.Now().Add(-h.takes), Ended: time.Now()}
		switch {
		case h.dead.Load():
			return
		case h.fate == fails:
			exit.Code = 1
		default:
			h.seen.note(func(s *seen) { s.succeeded[h.day]++ })
		}
		fake.end(exit)
	})
}

// die is the end of the host, or of flockd alone.
func (h *host) die(fake *fakeProcess) {
	h.dead.Store(true)
	fake.end(Exit{Code: 137, Started: time.Now()})
	if lease := h.lease.Load(); lease != nil && h.fate == killed {
		GiveBack(context.Background(), h.store, *lease, backends.Outcome{Class: string(Lost)})
	}
}

// reach is the store as the host has it, which is out of reach once the host is dead.
func (h *host) reach() backends.Backend {
	errDead := errors.New("the host is dead")
	return &faulty{
		Backend: h.store,
		acquire: func(ctx context.Context, req backends.Request) (backends.Lease, error) {
			if h.dead.Load() {
				return backends.Lease{}, errDead
			}
			return h.store.Acquire(ctx, req)
		},
		renew: func(ctx context.Context, lease backends.Lease) (backends.Renewal, error) {
			if h.dead.Load() {
				return backends.Renewal{}, errDead
			}
			return h.store.Renew(ctx, lease)
		},
		release: func(ctx context.Context, key, id string, o backends.Outcome) error {
			if h.dead.Load() {
				return errDead
			}
			return h.store.Release(ctx, key, id, o)
		},
	}
}

// seen is what came of a month.
type seen struct {
	mu        sync.Mutex
	days      []string        // on which it was due
	succeeded map[string]int  // by day
	able      map[string]bool // somebody came who works
	fates     map[fate]int
	wrong     []string
}

func (s *seen) note(what func(*seen)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what(s)
}

func (s *seen) add(h *host) {
	s.fates[h.fate]++
	s.able[h.day] = s.able[h.day] || h.fate == works || h.fate == late
}

func (s *seen) most() (most int) {
	for _, n := range s.succeeded {
		most = max(most, n)
	}
	return most
}

// shows wants each fate to have come.
func (s *seen) shows(t *testing.T, seed uint64) {
	t.Helper()
	for _, f := range []fate{works, fails, crashes, killed, late, down} {
		if s.fates[f] == 0 {
			t.Errorf("seed %d: nobody %s: %v", seed, f, maps.Clone(s.fates))
		}
	}
}
