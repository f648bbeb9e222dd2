//go:build linux

package testscripts

import (
	"slices"
	"testing"
)

func init() {
	fencingSections["With an election"] = func(p *page) {
		daemon := p.take("sh", "./daemon")
		for name, c := range map[string]struct {
			second string // what happens before the second write
			status int
			want   string
		}{
			"a term":     {"true", 0, "2"},
			"a late one": {"echo later | flockd fence file state --token 9007199254740991", 80, "later"},
		} {
			p.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newFolder(t)
				r.installs(daemon)
				r.writes("wait.sh", "echo >>rounds; test $(wc -l <rounds) -le 2\n")
				r.writes("state.sh", "n=$(wc -l <rounds); if test $n = 2; then "+c.second+"; fi; echo $n\n")
				r.start("elect", "--backend", "sqlite://"+r.dir+"/flockd.db", "--key", "svc", "--restart", "never", "--", "./daemon").ends(c.status)
				if got := r.lines("state"); !slices.Equal(got, []string{c.want}) {
					t.Errorf("it wrote %q, want %s", got, c.want)
				}
			})
		}
	}
}
