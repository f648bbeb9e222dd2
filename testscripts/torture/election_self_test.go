//go:build linux

package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writtenElection is one of candidate 0, of process 7, whose files are as probes write them.
func writtenElection(t *testing.T, files map[string][]string) *election {
	folder := t.TempDir()
	for name, lines := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &election{arena: &arena{t: t, folder: folder}, candidates: []*candidate{{job: &job{session: 7}}}}
}

// second is one, as the probes tell the time.
func second(n float64) string { return fmt.Sprint(int64(n * float64(time.Second))) }

// TestElectionChecks has what is wrong in an election seen by its checks. Term 5 begins at 1 s, and
// lasts until 6 s.
func TestElectionChecks(t *testing.T) {
	stamps := []string{second(1) + " start 5 id svc", second(6) + " beat 5 id svc"}
	terms := []string{second(1.1) + " 5 id 7 70"}
	elected, deposed := second(1.5)+" elected begin 0 5 -", second(6.5)+" deposed begin 0 5 asked"
	for _, c := range []struct {
		name  string
		files map[string][]string
		says  string // empty: all is well
	}{
		{"as it should be", map[string][]string{"hooks": {elected, deposed}}, ""},
		{"nothing at the begin", map[string][]string{"hooks": {deposed}}, "no hook at its begin"},
		{"nothing at the begin, since another one ran", map[string][]string{"hooks": {second(0.5) + " deposed begin 0 4 lost", deposed}}, ""},
		{"nothing at the end", map[string][]string{"hooks": {elected}}, "no hook at its end"},
		{"twice at the end", map[string][]string{"hooks": {elected, deposed, deposed}}, "1 hooks at its begin, 2 at its end"},
		{"too early at the end", map[string][]string{"hooks": {elected, second(5.9) + " deposed begin 0 5 asked"}}, "before its command was dead"},
		{"in the wrong order", map[string][]string{"hooks": {deposed, second(7) + " elected begin 0 5 -"}}, "on-elected after on-deposed"},
		{"another reason", map[string][]string{"hooks": {elected, second(6.5) + " deposed begin 0 5 ended"}}, `hears "ended", not "asked"`},
		{"lost, for which a busy host is enough", map[string][]string{"hooks": {elected, second(6.5) + " deposed begin 0 5 lost"}}, ""},
		{"an update lost", map[string][]string{"hooks": {elected, deposed}, "written": {"5 0", "5 1"}, "book": {"5 1"}}, `1 lost updates: ["5 0"]`},
		{"an update that nobody was told of", map[string][]string{"hooks": {elected, deposed}, "written": {"5 0"}, "book": {"5 0", "5 1"}}, ""},
		{"a writer too late", map[string][]string{"hooks": {elected, deposed}, "refused": {"5 80 stale"}}, "writes of old terms: [5]"},
		{"a writer that was stopped", map[string][]string{"hooks": {elected, deposed}, "refused": {"5 143 "}}, ""},
		{"a writer that failed", map[string][]string{"hooks": {elected, deposed}, "refused": {"5 69 no space"}}, "fence file: 5 69 no space"},
		{"a term that doesn't grow", map[string][]string{"hooks": {elected, deposed}, "terms": {second(0.1) + " 5 other 7 71", terms[0]}}, "term 5 began after term 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string][]string{"stamps": stamps, "terms": terms}
			for name, lines := range c.files {
				files[name] = lines
			}
			e := writtenElection(t, files)
			e.changes = []change{{means: "flockd break", told: "asked", old: e.terms()[0]}}
			spans, err := spansIn(e.folder)
			if err != nil {
				t.Fatal(err)
			}
			hooks, err := hooksIn(e.folder)
			if err != nil {
				t.Fatal(err)
			}
			said := fmt.Sprint(checkOrder(e.terms()), e.checkHooks(hooks, spans), e.checkReasons(hooks), e.checkBook())
			if all := fmt.Sprint(nil, nil, nil, nil); c.says == "" && said != all {
				t.Errorf("%s", said)
			}
			if !strings.Contains(said, c.says) {
				t.Errorf("it isn't said: %s, but %s", c.says, said)
			}
		})
	}
}
