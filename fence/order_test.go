//go:build linux

package fence

import (
	"regexp"
	"slices"
	"testing"
)

// TestOrder holds a writer to the order that a power cut asks for.
func TestOrder(t *testing.T) {
	t.Parallel()
	for _, s := range []start{first, next, same} {
		t.Run(s.name, func(t *testing.T) {
			want := []string{"fsync draft", "flock sidecar", "fsync draft", "rename to sidecar", "fsync folder", "rename to file", "fsync folder"}
			switch s.was {
			case 0:
				want = []string{"fsync draft", "fsync draft", "link to sidecar", "fsync folder", "rename to file", "fsync folder"}
			case 7:
				want = []string{"fsync draft", "flock sidecar", "fsync folder", "rename to file", "fsync folder"}
			}
			all, before := protocol(t, s)
			var got []string
			for _, c := range all[before:] {
				if step := stepOf(c.line); step != "" {
					got = append(got, step)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q\nwant\n%q", got, want)
			}
		})
	}
}

var stepForms = map[string]*regexp.Regexp{
	"fsync draft":       regexp.MustCompile(` fsync\(\d+<.*/\.file\.fence\.[0-9a-f]{8}>\) += 0`),
	"fsync folder":      regexp.MustCompile(` fsync\(\d+<[^>]*/\d+>\) += 0`),
	"flock sidecar":     regexp.MustCompile(` flock\(\d+<.*/\.file\.fence>, LOCK_EX\|LOCK_NB\) += 0`),
	"rename to sidecar": regexp.MustCompile(` renameat\(.*, "\.file\.fence"\) += 0`),
	"link to sidecar":   regexp.MustCompile(` linkat\(.*, "\.file\.fence", 0\) += 0`),
	"rename to file":    regexp.MustCompile(` renameat\(.*, "file"\) += 0`),
}

// stepOf names the step of the protocol that a line of a trace is; empty: none.
func stepOf(line string) string {
	for name, form := range stepForms {
		if form.MatchString(line) {
			return name
		}
	}
	return ""
}
