//go:build linux

package testscripts

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// service is what scripts write to that is no database, one of a test's own.
type service struct {
	variables []string      // by which a script finds it
	apples    func() string // how many it has
}

// scriptedWriter is a recipe for one. Its contest runs the whole script.
type scriptedWriter struct {
	script             block   // calls ./count.sh with a number, and writes what that prints
	others             []block // beside it
	condition, instead string  // what the control leaves out of any, and what it has for it
	status             int     // of who comes too late
	says               string
	open               func(r *recipe) service // makes one that has 0 apples
}

// test shows that a zombie is refused, and that it wouldn't be without the condition.
func (w scriptedWriter) test(t *testing.T) {
	run := block{language: "sh", text: "flockd run --key stock -- " + w.script.name + "\n"}
	in := func(name string, w scriptedWriter, test func(*recipe, service)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecipe(t, run, "count.sh", append(w.others, w.script)...)
			s := w.open(r)
			r.variables = s.variables
			test(r, s)
		})
	}
	loose := w.loose(t)
	in("zombie", w, func(r *recipe, s service) {
		r.zombie().ended(w.status, w.says)
		r.apples(s, "2")
	})
	in("zombie without the fence", loose, func(r *recipe, s service) {
		r.zombie().ended(0, "")
		r.apples(s, "1")
	})
	in("no token", w, func(r *recipe, s service) {
		for _, token := range []string{"", "9e99", "x"} {
			if r.alone(w.script, "FLOCKD_TOKEN="+token).status() == 0 {
				r.Errorf("token %q: it succeeds", token)
			}
		}
		r.alone(w.script, "FLOCKD_TOKEN=41").ends(0)
		r.apples(s, "1")
	})
	in("odd text", w, func(r *recipe, s service) {
		const text = oddText + "\nput stock/pears 1"
		for _, text := range []string{"-5", "", text} {
			r.prints(text)
			r.alone(w.script, "FLOCKD_TOKEN=41").ends(0)
		}
		r.apples(s, text)
	})
	in("storm", w, func(r *recipe, s service) {
		fencedContest(r.T, 2, w.sinks(r))
	})
	in("storm under the key", w, func(r *recipe, s service) {
		keptContest(r.T, 2, w.sinks(r))
	})
	in("storm without the fence", loose, func(r *recipe, s service) {
		looseContest(r.T, 1, loose.sinks(r))
	})
}

// loose is the control.
func (w scriptedWriter) loose(t *testing.T) scriptedWriter {
	t.Helper()
	found := false
	without := func(b block) block {
		found = found || strings.Contains(b.text, w.condition)
		b.text = strings.ReplaceAll(b.text, w.condition, w.instead)
		return b
	}
	w.script = without(w.script)
	var others []block
	for _, b := range w.others {
		others = append(others, without(b))
	}
	w.others = others
	if !found {
		t.Fatalf("%q is in no block", w.condition)
	}
	return w
}

func (r *recipe) apples(s service, want string) {
	r.Helper()
	if got := s.apples(); got != want {
		r.Errorf("%s apples, want %s", got, want)
	}
}

// sinks are runs of the script, whose work tells the contest what it was given and waits for
// what to print.
func (w scriptedWriter) sinks(r *recipe) func() sink {
	r.writes(r.work, `echo "$1" >&3; read -r new <&4; echo "$new"`)
	return func() sink { return &scriptSink{w: w, r: r} }
}

// scriptSink runs one script at a time, from begin to write.
type scriptSink struct {
	w      scriptedWriter
	r      *recipe
	cmd    *exec.Cmd
	stderr bytes.Buffer
	answer *os.File // what the work is to print
}

func (s *scriptSink) begin(token int64) (int64, error) {
	told, tell, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer told.Close()
	hear, answer, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	s.answer = answer
	if err := s.start(token, tell, hear); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(told).ReadString('\n')
	if err != nil {
		answer.Close()
		return 0, s.refusal()
	}
	if line = strings.TrimSpace(line); line == "" {
		return 0, nil
	}
	return strconv.ParseInt(line, 10, 64)
}

// start starts a script, which has the files for its work.
func (s *scriptSink) start(token int64, files ...*os.File) error {
	s.stderr.Reset()
	cmd := exec.Command(s.w.script.name)
	cmd.Dir, cmd.Stderr, cmd.ExtraFiles = s.r.dir, &s.stderr, files
	cmd.Env = append(s.r.variables, "PATH="+s.r.path, "HOME="+s.r.dir, "TMPDIR="+s.r.dir, fmt.Sprint("FLOCKD_TOKEN=", token))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd = cmd
	err := cmd.Start()
	for _, f := range files {
		f.Close()
	}
	return err
}

func (s *scriptSink) write(_, number int64) error {
	_, err := fmt.Fprintln(s.answer, number)
	s.answer.Close()
	if err != nil {
		return err
	}
	err = s.cmd.Wait()
	if err != nil {
		return s.judge(err)
	}
	return nil
}

// refusal is why a script came to no work.
func (s *scriptSink) refusal() error {
	if err := s.cmd.Wait(); err != nil {
		return s.judge(err)
	}
	return fmt.Errorf("%s did no work: %s", s.w.script.name, s.stderr.String())
}

func (s *scriptSink) judge(err error) error {
	said := s.stderr.String()
	if status, _ := exitStatus(err); status == s.w.status && strings.Contains(said, s.w.says) {
		return fmt.Errorf("%w: %s", errStale, said)
	}
	return fmt.Errorf("%s: %w: %s", filepath.Base(s.w.script.name), err, said)
}
