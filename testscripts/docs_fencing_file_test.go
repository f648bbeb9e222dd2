//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func init() {
	fencingSections["A file"] = func(p *page) {
		recount := p.take("sh", "./recount.sh")
		loose := block{"sh", recount.name, strings.NewReplacer(
			"flockd fence file stock --raise", "true", `flockd fence file stock <"$new"`, `cp "$new" stock.$FLOCKD_ID; mv stock.$FLOCKD_ID stock`,
		).Replace(recount.text)}
		for name, c := range map[string]struct {
			script       block
			status       int
			says, leaves string
		}{
			"zombie":                   {recount, 80, "flockd: stale: token ", "2"},
			"zombie without the fence": {loose, 0, "", "1"},
		} {
			p.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRecipe(t, block{language: "sh", text: "flockd run --key stock -- ./recount.sh\n"}, "count.sh", c.script)
				must(t, os.WriteFile(filepath.Join(r.dir, "stock"), []byte("0\n"), 0o644))
				r.zombie().ended(c.status, c.says)
				if got := r.lines("stock"); len(got) != 1 || got[0] != c.leaves {
					t.Errorf("%q, want %s", got, c.leaves)
				}
			})
		}
		p.Run("the old content can't be read", func(t *testing.T) {
			t.Parallel()
			r := newRecipe(t, block{}, "count.sh", recount)
			r.alone(recount, "FLOCKD_TOKEN=41").ends(1)
			if r.exists("stock") || r.exists("at-work-1") {
				t.Error("it has worked on nothing")
			}
		})
		remote := p.take("sh", "./report-web1.sh")
		p.Run("another host", func(t *testing.T) {
			t.Parallel()
			fencedRemotely(t, remote)
		})
		p.Run("storm", func(t *testing.T) {
			t.Parallel()
			fencedContest(t, 5, fileSinks(newFolder(t), "flockd fence file stock --raise", "flockd fence file stock"))
		})
		p.Run("storm without the fence", func(t *testing.T) {
			t.Parallel()
			looseContest(t, 2, fileSinks(newFolder(t), "true", "cat >stock.$FLOCKD_TOKEN; mv stock.$FLOCKD_TOKEN stock"))
		})
	}
}

// fencedRemotely breaks the connection of the page's script in the middle: the far side sees an
// end of input, and must not take it for the content's.
func fencedRemotely(t *testing.T, script block) {
	for _, size := range []string{` --size "$(wc -c <"$new")"`, " "} {
		local := script
		if local.text = strings.NewReplacer("/srv/www/", "", ` --size "$(wc -c <"$new")"`, size).Replace(script.text); !strings.Contains(local.text, size) {
			t.Fatalf("%q is not in:\n%s", size, script.text)
		}
		r := newRecipe(t, block{}, "report.sh", local)
		r.prints("a report\n")
		r.writes("ssh", `shift; head -c "$COMES" | sh -c "$*"`+"\n")
		here := "PATH=" + r.dir + ":" + r.path
		r.alone(local, here, "COMES=100", "FLOCKD_TOKEN=41").ends(0)
		r.contains("report.html", "a report\n")
		switch cut := r.alone(local, here, "COMES=4", "FLOCKD_TOKEN=57"); {
		case size == " ":
			cut.ends(0)
			r.contains("report.html", "a re")
		default:
			cut.ends(69)
			r.contains("report.html", "a report\n")
			r.alone(local, here, "COMES=100", "FLOCKD_TOKEN=42").ends(0)
		}
	}
}

// fileSinks are clients of the file stock, by the commands of the page.
func fileSinks(r *rig, raise, write string) func() sink {
	must(r.T, os.WriteFile(filepath.Join(r.dir, "stock"), []byte("0\n"), 0o644))
	return func() sink { return &fileSink{r, raise, write} }
}

type fileSink struct {
	r          *rig
	raise, put string
}

func (s *fileSink) begin(token int64) (int64, error) {
	text, err := s.does(token, s.raise+" && cat stock")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(text), 10, 64)
}

func (s *fileSink) write(token, number int64) error {
	_, err := s.does(token, fmt.Sprintf("echo %d | { %s; }", number, s.put))
	return err
}

// does runs a command with a token. Its stale exit is errStale.
func (s *fileSink) does(token int64, command string) (string, error) {
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env = s.r.dir, []string{"PATH=" + s.r.path, fmt.Sprint("FLOCKD_TOKEN=", token)}
	text, err := cmd.Output()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 80 {
		err = errStale
	}
	return string(text), err
}
