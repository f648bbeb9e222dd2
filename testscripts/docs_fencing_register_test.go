//go:build linux

package testscripts

import (
	"os/exec"
	"strings"
	"testing"
)

func init() {
	fencingSections["A register in the lock's store"] = func(p *page) {
		script, run := p.take("sh", "./publish.sh"), p.take("sh", "")
		ends, begins := p.take("sh", ""), p.take("sh", "")
		p.Run("zombie", func(t *testing.T) {
			t.Parallel()
			r := publishing(t, run, script)
			r.zombie().ended(80, "flockd: stale: token ")
			r.uploaded("2")
		})
		p.Run("zombie without the register", func(t *testing.T) {
			t.Parallel()
			loose := script
			loose.text = strings.ReplaceAll(script.text, "flockd fence admit reports/web\n", "")
			r := publishing(t, run, loose)
			r.zombie().ended(0, "")
			r.uploaded("2 1")
		})
		p.Run("move", func(t *testing.T) {
			t.Parallel()
			moves(served(t, etcd, etcd.start(t)), ends, begins)
		})
	}
}

// publishing is a writer whose uploads are noted.
func publishing(t *testing.T, run, script block) *recipe {
	t.Helper()
	r := newRecipe(t, run, "render.sh", script)
	r.writes("upload.sh", "echo \"$1\" >>uploaded\n")
	return r
}

func (r *recipe) uploaded(want string) {
	r.Helper()
	if got := strings.Join(r.lines("uploaded"), " "); got != want {
		r.Errorf("uploaded %q, want %q", got, want)
	}
}

// moves a lock from SQLite to etcd, whose tokens are smaller, and whose register has seen one
// of SQLite's.
func moves(r *rig, ends, begins block) {
	const token = "1759363200000000"
	old, now := "sqlite://"+r.dir+"/flockd.db", r.direct
	sh := func(text string) *job {
		cmd := exec.Command("sh", "-c", text)
		cmd.Env = []string{"OLD=" + old, "NEW=" + now, "TOKEN=" + token}
		return r.launch(cmd)
	}
	const late = `flockd fence admit reports/web --token $TOKEN -b `
	sh(`flockd run --key reports -b "$OLD" -- ` + late + `"$OLD"`).ends(0)
	sh(ends.text).ends(0).says("it was " + token)
	sh(late + `"$OLD"`).ends(80).says("which has seen 9007199254740991")
	sh(late + `"$NEW"`).ends(0)
	const writer = `flockd run --key reports -b "$NEW" -- flockd fence admit reports/web`
	sh(writer).ends(80).says("which has seen " + token)
	sh(begins.text).ends(0).says("is 1 now; it was " + token)
	sh(writer).ends(0)
}
