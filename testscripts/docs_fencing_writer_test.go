//go:build linux

package testscripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// database is one of a test's own.
type database struct {
	*testing.T
	connect   func() connection
	variables []string // by which its client finds it
	says      func(statements string) string
}

// databases makes one for a test, whose client works in dir.
type databases func(t *testing.T, dir string) *database

const (
	runsRecount = "flockd run --key stock -- ./recount.sh\n"
	textTable   = "DROP TABLE stock; CREATE TABLE stock (sku VARCHAR(20) PRIMARY KEY, n VARCHAR(200) NOT NULL, token BIGINT NOT NULL DEFAULT 0); INSERT INTO stock (sku, n) VALUES ('apples', '0');"
	stockTable  = "CREATE TABLE stock (sku VARCHAR(20) PRIMARY KEY, n BIGINT NOT NULL); INSERT INTO stock VALUES ('apples', 0);"
)

func init() {
	fencingSections["What every recipe keeps"] = func(p *page) {
		if run := p.take("sh", ""); run.text != runsRecount {
			p.Errorf("the recipes are run by %q, not by %q", runsRecount, run.text)
		}
	}
}

// fencedWriter is a recipe for a database: a script that calls ./count.sh with a number, and
// writes what that prints.
type fencedWriter struct {
	setup, script      block
	others             []block // that the script needs
	reads, adds        string  // what a contest sends; by default the script's own statements
	condition, instead string  // what the control leaves out of either, and what it has for it
	status             int     // of who comes too late
	says               string
}

// test shows that a zombie is refused, and that it wouldn't be without the condition.
func (w fencedWriter) test(t *testing.T, title string, open databases) {
	in := func(name string, w fencedWriter, test func(*recipe, *database)) {
		t.Run(title+"/"+name, func(t *testing.T) {
			t.Parallel()
			w.tried(t, open, test)
		})
	}
	loose := w.loose(t)
	in("zombie", w, func(r *recipe, db *database) {
		r.zombie().ended(w.status, w.says)
		r.stock(db, "2")
	})
	in("zombie without the fence", loose, func(r *recipe, db *database) {
		r.zombie().ended(0, "")
		r.stock(db, "1")
	})
	in("no token", w, func(r *recipe, db *database) {
		if r.alone(w.script).status() == 0 || r.alone(w.script, "FLOCKD_TOKEN=9e99").status() == 0 {
			r.Error("it has no token, and succeeds")
		}
		r.stock(db, "0")
	})
	in("storm", w, func(r *recipe, db *database) {
		fencedContest(r.T, 5, db.sinks(r.T, w))
	})
	in("storm without the fence", loose, func(r *recipe, db *database) {
		looseContest(r.T, 2, db.sinks(r.T, loose))
	})
}

// oddText is what some client could take for a file, for a statement, or for another token.
const oddText = `@x' "two" $(words) 7),(':token',9007199254740991), @token = 9007199254740991`

// keeps shows that a script writes whatever its work prints, as a text.
func (w fencedWriter) keeps(t *testing.T, title string, open databases) {
	t.Run(title+"/odd text", func(t *testing.T) {
		t.Parallel()
		w.tried(t, open, func(r *recipe, db *database) {
			db.says(textTable)
			r.prints(oddText)
			r.alone(w.script, "FLOCKD_TOKEN=41").ends(0)
			r.stock(db, oddText)
			r.prints("2")
			r.alone(w.script, "FLOCKD_TOKEN=42").ends(0)
			r.stock(db, "2")
		})
	})
}

// prints has the work print a text.
func (r *recipe) prints(text string) {
	r.Helper()
	must(r.T, os.WriteFile(filepath.Join(r.dir, "text"), []byte(text), 0o600))
	r.writes(r.work, "cat text\n")
}

// tried runs a test with a database that is set up, and the script in a folder.
func (w fencedWriter) tried(t *testing.T, open databases, test func(*recipe, *database)) {
	run := block{text: strings.Replace(runsRecount, "./recount.sh", w.script.name, 1)}
	r := newRecipe(t, run, "count.sh", append(w.others, w.script)...)
	db := open(t, r.dir)
	r.variables = db.variables
	db.says(stockTable + w.setup.text)
	test(r, db)
}

// alone starts a script without a flockd.
func (r *recipe) alone(script block, variables ...string) *job {
	r.Helper()
	cmd := exec.Command(script.name)
	cmd.Env = slices.Concat(r.variables, variables, []string{"WRITER=1"})
	return r.launch(cmd)
}

// statements are what a client sends to begin, and to write.
func (w fencedWriter) statements(t *testing.T) (reads, adds string) {
	t.Helper()
	if w.reads != "" {
		return w.reads, w.adds
	}
	texts := w.script.heredocs()
	if len(texts) != 2 {
		t.Fatalf("%d texts of statements in:\n%s", len(texts), w.script.text)
	}
	return texts[0], texts[1]
}

// loose is the control.
func (w fencedWriter) loose(t *testing.T) fencedWriter {
	t.Helper()
	if !strings.Contains(w.setup.text+w.script.text, w.condition) {
		t.Fatalf("%q is in neither of:\n%s\n%s", w.condition, w.setup.text, w.script.text)
	}
	w.setup.text = strings.ReplaceAll(w.setup.text, w.condition, w.instead)
	w.script.text = strings.ReplaceAll(w.script.text, w.condition, w.instead)
	return w
}

// stock wants a number of apples.
func (r *recipe) stock(db *database, want string) {
	r.Helper()
	if got := strings.TrimSpace(db.says("SELECT n FROM stock")); got != want {
		r.Errorf("%s apples, want %s", got, want)
	}
}
