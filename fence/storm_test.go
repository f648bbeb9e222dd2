//go:build linux

package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flockd/backends"
)

const (
	stormWriters = 20
	stormRounds  = 50
	stormReaders = 4
)

// replacer is Replace, or one that is broken.
type replacer func(ctx context.Context, path string, token backends.Token, content io.Reader) error

// accepted is a write that was.
type accepted struct {
	token      backends.Token
	began, end time.Time
}

// storm is what many writers and readers of one file have seen.
type storm struct {
	path string
	do   replacer

	mu      sync.Mutex
	writes  []accepted
	stale   int
	reads   int
	faults  []string
	largest backends.Token
}

func (s *storm) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// newStorm runs writers with tokens in a shuffled order, each its own and of a size of its own,
// and readers beside them.
func newStorm(t *testing.T, do replacer) *storm {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "flockd-test-") // the faster it is, the more meet
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &storm{path: filepath.Join(dir, "file"), do: do, largest: stormWriters * stormRounds}
	var writers, readers sync.WaitGroup
	over := make(chan struct{})
	for range stormReaders {
		readers.Go(func() { s.read(over) })
	}
	tokens := make(chan backends.Token)
	for range stormWriters {
		writers.Go(func() {
			for token := range tokens {
				s.write(token)
			}
		})
	}
	for _, token := range shuffled(s.largest) {
		tokens <- token
	}
	close(tokens)
	writers.Wait()
	close(over)
	readers.Wait()
	s.check()
	return s
}

// shuffled are the tokens to the largest, each not far from where it belongs: so many are
// accepted, and many come too late.
func shuffled(largest backends.Token) []backends.Token {
	place := map[backends.Token]int{}
	var tokens []backends.Token
	for token := backends.Token(1); token <= largest; token++ {
		place[token] = int(token) + rand.IntN(stormWriters)
		tokens = append(tokens, token)
	}
	slices.SortStableFunc(tokens, func(a, b backends.Token) int { return place[a] - place[b] })
	return tokens
}

// textOf is a content that tells of a part and of a mix.
func textOf(token backends.Token) string {
	line := fmt.Sprintln(token)
	lines := 1 + int(token*7919%5000)
	return fmt.Sprintln(token, lines) + strings.Repeat(line, lines)
}

func (s *storm) write(token backends.Token) {
	began := time.Now()
	err := s.do(context.Background(), s.path, token, strings.NewReader(textOf(token)))
	end := time.Now()
	var stale *backends.StaleError
	switch {
	case err == nil:
		s.mu.Lock()
		s.writes = append(s.writes, accepted{token, began, end})
		s.mu.Unlock()
	case errors.As(err, &stale):
		if stale.Token != token || stale.Highest <= token || stale.Highest > s.largest {
			s.fault("token %d: %v", token, err)
		}
		s.mu.Lock()
		s.stale++
		s.mu.Unlock()
	default:
		s.fault("token %d: %v", token, err)
	}
}

// read wants whole contents, of which none is older than the one before.
func (s *storm) read(over <-chan struct{}) {
	var last backends.Token
	for {
		select {
		case <-over:
			return
		default:
		}
		text, err := os.ReadFile(s.path)
		if err != nil {
			continue // not there yet
		}
		token := tokenIn(text)
		if token < last {
			s.fault("read %d after %d (0: no whole content)", token, last)
		}
		last = max(last, token)
		s.mu.Lock()
		s.reads++
		s.mu.Unlock()
	}
}

// tokenIn is whose content it is; 0: nobody's as a whole.
func tokenIn(text []byte) (token backends.Token) {
	fmt.Fscan(bytes.NewReader(text), &token)
	if string(text) != textOf(token) {
		return 0
	}
	return token
}

// check holds what was accepted to the order of time, and the end to the largest token.
func (s *storm) check() {
	for _, a := range s.writes {
		for _, b := range s.writes {
			if a.end.Before(b.began) && a.token > b.token {
				s.fault("%d was accepted after %d", b.token, a.token)
			}
		}
	}
	text, err := os.ReadFile(s.path)
	if token := tokenIn(text); token != s.largest {
		s.fault("the last content is of %d, not of %d: %v", token, s.largest, err)
	}
	if left, err := filepath.Glob(filepath.Dir(s.path) + "/.*.fence.*"); err != nil || len(left) > 0 {
		s.fault("left: %q", left)
	}
}

func TestStorm(t *testing.T) {
	t.Parallel()
	s := newStorm(t, Replace)
	t.Logf("%d accepted, %d stale, %d reads", len(s.writes), s.stale, s.reads)
	for _, fault := range s.faults {
		t.Error(fault)
	}
	if len(s.writes)+s.stale != int(s.largest) || s.stale == 0 || len(s.writes) < stormWriters || s.reads == 0 {
		t.Error("this was no storm")
	}
}

// TestStormCatches runs it with writers that are broken.
func TestStormCatches(t *testing.T) {
	for name, broken := range map[string]struct {
		do    replacer
		fault string
	}{
		"no fence":         {unfenced, "the last content is of"},
		"written in place": {inPlace, "no whole content"},
		"no lock":          {unlocked, " after "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 20 // which is many more than it takes
			for range most {
				if strings.Contains(strings.Join(newStorm(t, broken.do).faults, "\n"), broken.fault) {
					return
				}
			}
			t.Errorf("nothing says %q", broken.fault)
		})
	}
}

func unfenced(_ context.Context, path string, token backends.Token, content io.Reader) error {
	draft := fmt.Sprint(path, ".", token)
	text, err := io.ReadAll(content)
	return errors.Join(err, os.WriteFile(draft, text, 0o600), os.Rename(draft, path))
}

func inPlace(_ context.Context, path string, _ backends.Token, content io.Reader) error {
	text, err := io.ReadAll(content)
	return errors.Join(err, os.WriteFile(path, text, 0o600))
}

// unlocked looks at the token, and writes it, but not in one step.
func unlocked(ctx context.Context, path string, token backends.Token, content io.Reader) error {
	f, err := open(path)
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.mayBegin(token); err != nil {
		return err
	}
	d, err := f.draftSidecar(token)
	if err != nil {
		return err
	}
	defer d.discard()
	return errors.Join(d.place(f.sidecar()), unfenced(ctx, path, token, content))
}
