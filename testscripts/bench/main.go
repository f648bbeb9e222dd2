// Command bench measures flockd beside flock(1) in paired runs: each round runs
// one after the other, in turn first, so that a busy machine slows both. It
// prints the median of the rounds' ratios.
//
//	bench FLOCKD
package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// waiters stand in line in the hand-over.
const waiters = 20

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: bench FLOCKD")
	}
	dir, err := os.MkdirTemp("", "flockd-bench-")
	check(err)
	defer os.RemoveAll(dir)
	os.Setenv("FLOCKD_BACKEND", "sqlite://"+dir+"/flockd.db")
	flockd, err := filepath.Abs(os.Args[1])
	check(err)
	b := bench{flockd: flockd, dir: dir, file: dir + "/flock"}

	b.compare("uncontended run of true", 300, b.timed(0, "--key", "free", "--", "true"), timed(0, "flock", "-n", b.file, "true"))
	release := b.holdBoth()
	b.compare("skip of a held key", 300, b.timed(75, "-q", "--key", "held", "--", "true"), timed(1, "flock", "-n", b.file, "true"))
	release()
	b.compare(fmt.Sprintf("hand-over through %d waiters", waiters), 15, b.handOver, b.flockHandOver)
	b.memory()
}

type bench struct{ flockd, dir, file string }

// compare runs ours and theirs side by side and prints the medians.
func (b *bench) compare(name string, rounds int, ours, theirs func() time.Duration) {
	var ratios []float64
	var a, f []time.Duration
	for i := range rounds + 3 {
		var x, y time.Duration
		if i%2 == 0 {
			x, y = ours(), theirs()
		} else {
			y, x = theirs(), ours()
		}
		if i < 3 {
			continue // the first rounds warm the caches
		}
		a, f, ratios = append(a, x), append(f, y), append(ratios, float64(x)/float64(y))
	}
	fmt.Printf("%-32s ratio %.2f (flockd %v, flock %v, %d rounds)\n", name, median(ratios),
		median(a).Round(10*time.Microsecond), median(f).Round(10*time.Microsecond), rounds)
}

func median[T int64 | float64 | time.Duration](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

func (b *bench) timed(status int, args ...string) func() time.Duration {
	return timed(status, b.flockd, append([]string{"run"}, args...)...)
}

// timed is a function that runs a command, wants its exit status, and returns its time.
func timed(status int, name string, args ...string) func() time.Duration {
	return func() time.Duration {
		cmd := exec.Command(name, args...)
		start := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(start)
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
			log.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return took
	}
}

// hold starts a command that holds until release is called.
func hold(name string, args ...string) (release func()) {
	cmd := exec.Command(name, append(args, "sh", "-c", "echo; read -r _ || :")...)
	in, err := cmd.StdinPipe()
	check(err)
	out, err := cmd.StdoutPipe()
	check(err)
	check(cmd.Start())
	_, err = out.Read(make([]byte, 1))
	check(err)
	return func() {
		in.Close()
		check(cmd.Wait())
	}
}

func (b *bench) holdBoth() (release func()) {
	r1 := hold(b.flockd, "run", "--key", "held", "--")
	r2 := hold("flock", b.file)
	return func() { r1(); r2() }
}

// handOver is how long it takes from a release until the last of the waiters has
// run true.
func (b *bench) handOver() time.Duration {
	release := hold(b.flockd, "run", "--key", "line", "--")
	var line []*exec.Cmd
	for range waiters {
		cmd := exec.Command(b.flockd, "run", "--key", "line", "--wait", "1m", "--", "true")
		stderr, err := cmd.StderrPipe()
		check(err)
		check(cmd.Start())
		_, err = bufio.NewReader(stderr).ReadString('\n') // it says that it waits
		check(err)
		line = append(line, cmd)
	}
	return drain(release, line)
}

func (b *bench) flockHandOver() time.Duration {
	release := hold("flock", b.file)
	var line []*exec.Cmd
	for i := range waiters {
		cmd := exec.Command("flock", b.file, "true")
		check(cmd.Start())
		line = append(line, cmd)
		await(func() bool { return b.blocked() == i+1 })
	}
	return drain(release, line)
}

// blocked counts who waits for the file.
func (b *bench) blocked() (n int) {
	locks, err := os.ReadFile("/proc/locks")
	check(err)
	info, err := exec.Command("stat", "-c", "%i", b.file).Output()
	check(err)
	for line := range strings.Lines(string(locks)) {
		if strings.Contains(line, "-> FLOCK") && strings.Contains(line, ":"+strings.TrimSpace(string(info))+" ") {
			n++
		}
	}
	return n
}

func drain(release func(), line []*exec.Cmd) time.Duration {
	start := time.Now()
	release()
	for _, cmd := range line {
		check(cmd.Wait())
	}
	return time.Since(start)
}

func await(ready func() bool) {
	for end := time.Now().Add(10 * time.Second); !ready(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			log.Fatal("a waiter did not get into line")
		}
	}
}

// memory asks for the high water mark of the flockd around a command.
func (b *bench) memory() {
	out, err := exec.Command(b.flockd, "run", "--key", "memory", "--", "sh", "-c", "grep VmHWM /proc/$PPID/status").CombinedOutput()
	check(err)
	field := strings.Fields(string(out))
	kb, err := strconv.Atoi(field[1])
	check(err)
	fmt.Printf("%-32s %.1f MB\n", "peak memory", float64(kb)/1024)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
