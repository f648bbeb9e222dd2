//go:build linux

package testscripts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func init() {
	fencingSections["Slots and shared holds"] = func(p *page) {
		script, run := p.take("sh", "./build-slot.sh"), p.take("sh", "")
		p.Run("a resource a slot", func(t *testing.T) {
			t.Parallel()
			fencedSlots(newRecipe(t, run, "build.sh", script), 0, "build-3")
		})
		loose := block{script.language, script.name, strings.Replace(script.text, "-$FLOCKD_SLOT", "", 1)}
		p.Run("half a build", func(t *testing.T) {
			t.Parallel()
			r := newRecipe(t, run, "build.sh", script)
			r.writes(r.work, "echo half; exit 5\n")
			r.writer(1, "").ends(5)
			if r.exists("build-0") {
				t.Error("it is there")
			}
		})
		p.Run("one resource", func(t *testing.T) {
			t.Parallel()
			fencedSlots(newRecipe(t, run, "build.sh", loose), 80, "build")
		})
	}
}

// fencedSlots has the zombie of a slot refused, while three hold the others. How those end
// tells whether what it and its successor did is their concern.
func fencedSlots(r *recipe, others int, file string) {
	jobs := map[int]*job{}
	for number := 3; number <= 5; number++ {
		jobs[number] = r.begins(number, "")
	}
	r.zombie().ended(80, "stale")
	for number, j := range jobs {
		r.goesOn(number)
		j.ends(others)
	}
	if text, err := os.ReadFile(filepath.Join(r.dir, file)); err != nil || string(text) != "2\n" {
		r.Errorf("%s: %q, %v", file, text, err)
	}
}
