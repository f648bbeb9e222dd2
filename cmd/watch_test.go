package cmd

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"flockd/backends"
	"flockd/backends/mem"
)

// TestChanges finds what has happened, which a renewal isn't.
func TestChanges(t *testing.T) {
	w := &watching{seen: map[string]thing{}}
	changed := func(statuses ...backends.Status) (names []string) {
		var p picture
		for _, s := range statuses {
			v := viewOf(s)
			p.things = append(p.things, thing{s.Key, v, v.unchanged(), v.State == stateFree})
		}
		for _, t := range w.changed(p) {
			names = append(names, t.name)
		}
		return names
	}
	want := func(got []string, names ...string) {
		t.Helper()
		if !slices.Equal(got, names) {
			t.Errorf("changed: %v, want %v", got, names)
		}
	}
	held := backends.Status{Key: "held", AsOf: asOf, Line: []backends.Claim{holder()}}
	free := backends.Status{Key: "free", AsOf: asOf, Last: &backends.Run{Class: "finished"}}
	want(changed(held, free), "held") // the other is hidden, and always was
	want(changed(held, free))
	renewed := held
	renewed.AsOf = asOf.Add(time.Minute)
	renewed.Line = []backends.Claim{holder()}
	renewed.Line[0].Renewed, renewed.Line[0].Expires = asOf.Add(time.Minute), asOf.Add(time.Hour)
	want(changed(renewed, free))
	asked := renewed
	asked.Line = slices.Clone(renewed.Line)
	asked.Line[0].Notice = backends.Notice{Kind: backends.Break}
	want(changed(asked, free), "held")
	ended := held
	ended.Line = nil
	want(changed(ended, free), "held") // hidden by now, and that is news
	want(changed(ended, free))
	want(changed(held, free), "held")
}

// TestWatchRidesOut rides out a store that is away for a while.
func TestWatchRidesOut(t *testing.T) {
	a := &app{Streams: Streams{Stdout: tempFile(t)}}
	var said strings.Builder
	a.print = newPrinter(&said, false, false, false)
	q := a.newQuery()
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	looks := 0
	err := q.show(ctx, true, func(context.Context) (picture, error) {
		looks++
		switch looks {
		case 2:
			return picture{}, errors.New("no route")
		case 4:
			cancel(enough)
		}
		return picture{text: "shown", things: []thing{{same: "x"}}}, nil
	})
	if !errors.Is(err, enough) || content(t, a.Stdout) != "shown\n" {
		t.Errorf("%v: %q", err, content(t, a.Stdout))
	}
	if lines := strings.Split(said.String(), "\n"); len(lines) != 3 || lines[0] != "flockd: no route; asking again" || !strings.HasPrefix(lines[1], "flockd: the store answers again, after ") {
		t.Errorf("%q", said.String())
	}
	refused := backends.Refuse("", "wrong password")
	err = q.show(t.Context(), true, func(context.Context) (picture, error) { return picture{}, refused })
	if !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
}

// TestWatchPause looks again soon after a look that failed, however long that took.
func TestWatchPause(t *testing.T) {
	w := &watching{}
	if got := w.pause(5 * time.Second); got != 45*time.Second {
		t.Errorf("after a long look %v", got)
	}
	w.away = time.Now()
	if got := w.pause(5 * time.Second); got != 5*time.Second {
		t.Errorf("after one that failed %v", got)
	}
	if got := w.pause(0); got != watchEvery {
		t.Errorf("after one that failed at once %v", got)
	}
}

// TestWatchEndsWithItsReader ends a watch whose output nobody reads any more, though nothing
// happens that it would write, nor the store answers.
func TestWatchEndsWithItsReader(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	a := &app{Streams: Streams{Stdout: write}}
	a.print = newPrinter(io.Discard, false, false, false)
	looks := 0
	err = a.newQuery().show(t.Context(), true, func(ctx context.Context) (picture, error) {
		if looks++; looks == 2 {
			read.Close()
			<-ctx.Done()
			return picture{}, ctx.Err()
		}
		return picture{text: "shown", things: []thing{{same: "x"}}}, nil
	})
	if !isClosedPipe(err) || looks != 2 {
		t.Errorf("%v after %d looks", err, looks)
	}
}

func TestCompletionFromTheStore(t *testing.T) {
	store := mem.New()
	lease := take(t, store, func(r *backends.Request) {
		r.Key = "deploy/web"
		r.Once = &backends.Once{ID: "run/7"}
	})
	if err := store.Complete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"status", "dep"}, "deploy/web"},
		{[]string{"status", "x"}, ""},
		{[]string{"status", "deploy/web", ""}, ""},
		{[]string{"list", ""}, "deploy/web"},
		{[]string{"break", ""}, "deploy/web"},
		{[]string{"break", "deploy/web", "--id", ""}, lease.ID},
		{[]string{"leader", "--key", "dep"}, "deploy/web"},
		{[]string{"leader", "-k", ""}, "deploy/web"},
		{[]string{"leader", ""}, ""},
		{[]string{"resign", "--key", ""}, "deploy/web"},
		{[]string{"resign", "--key", "deploy/web", ""}, ""},
		{[]string{"once", "list", ""}, "deploy/web"},
		{[]string{"once", "forget", "deploy/web", ""}, "run/7"},
	} {
		o := queryStore(t, store, append([]string{"__complete"}, c.args...)...)
		words, _, _ := strings.Cut(o.stdout, ":")
		if strings.TrimSpace(words) != c.want {
			t.Errorf("%q: %q", c.args, o.stdout)
		}
	}
	hangs := func(context.Context, *backends.URL) (backends.Backend, error) { select {} }
	if o := queryFound(t, hangs, "__complete", "status", ""); !strings.HasPrefix(o.stdout, ":") {
		t.Errorf("a store that hangs: %+v", o)
	}
}
