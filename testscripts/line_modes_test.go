//go:build linux

package testscripts

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"flockd/testscripts/oracle"
)

// TestModesMeetNobodyElse: processes of all modes are after one key, and flockd is killed
// under each fourth of them. No command ever meets one that it must not be beside.
func TestModesMeetNobodyElse(t *testing.T) {
	onStores(t, func(r *rig) {
		var workers sync.WaitGroup
		for n, mode := range []string{"", "", "shared", "shared", "shared", "slots=2", "slots=2", "slots=2", "slots=3", "slots=3"} {
			workers.Go(func() {
				for i := range 5 {
					work, status := "50ms", 0
					if (n+i)%4 == 0 {
						work, status = "kill", 137
					}
					r.mode(mode, "--ttl", "1m", "--wait", "1m", "--", "sharer", "oracle", mode, work).ends(status)
				}
			})
		}
		workers.Wait()
		r.run(r.direct, "k", "--wait", "1m", "--", "true").ends(0) // the guard of the last may be at it yet
	})
}

// TestModesAreSeen: the same without flockd is found out.
func TestModesAreSeen(t *testing.T) {
	t.Parallel()
	r := newFolder(t)
	r.direct = "sqlite://" + r.dir + "/flockd.db"
	for n, mode := range []string{"", "slots=2", "shared"} {
		name := fmt.Sprint("oracle-", n)
		r.run(r.direct, name, "-q", "-c", "FLOCKD_SLOT=0 exec sharer "+name+" '"+mode+"' 1m")
		until(r, "it holds", func() bool { return len(r.lines("held")) > n })
		r.run(r.direct, "k", "-q", "--", "sharer", name, "", "0s").ends(3)
	}
}

// mode starts flockd for the key k in a mode of the oracle's.
func (r *rig) mode(mode string, args ...string) *job {
	r.Helper()
	if mode != "" {
		args = append([]string{"--" + mode}, args...)
	}
	return r.run(r.direct, "k", append([]string{"-q"}, args...)...)
}

// sharer is the command of a holder: sharer ORACLE MODE WORK. It ends with 3 where it meets
// somebody. With "kill" for WORK it does what bereave does.
func sharer() {
	file, err := oracle.Take(os.Args[1], os.Args[2], os.Getenv("FLOCKD_SLOT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	defer file.Close()
	fatal(note("held", "x"))
	if os.Args[3] == "kill" {
		bereave()
	}
	work, err := time.ParseDuration(os.Args[3])
	fatal(err)
	time.Sleep(work)
}

// bereave is a command that kills its flockd once that has a guard, and goes on until it
// is killed.
func bereave() {
	for guardOf(os.Getppid()) == 0 {
		time.Sleep(time.Millisecond)
	}
	fatal(syscall.Kill(os.Getppid(), syscall.SIGKILL))
	time.Sleep(patience)
	os.Exit(4)
}

// note appends a line in one call.
func note(name, line string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(strings.TrimSpace(line) + "\n")
	return err
}

// TestMinHold: a key is free again when its min-hold has passed since the grant, however
// its holder ended, and not before.
func TestMinHold(t *testing.T) {
	t.Parallel()
	ends := []struct {
		name    string
		command []string
		status  int
	}{
		{"success", []string{"true"}, 0},
		{"failure", []string{"sh", "-c", "exit 3"}, 3},
		{"killed", []string{"bereave"}, 137},
	}
	const minHold = 3 * time.Second
	onStores(t, func(r *rig) {
		var all sync.WaitGroup
		for _, mode := range []string{"", "--shared", "--slots=1"} {
			for _, end := range ends {
				all.Go(func() {
					key := end.name + mode
					args := append(strings.Fields(mode), "--ttl", "2m", "--min-hold", minHold.String(), "--")
					began := time.Now() // not after the grant
					r.run(r.direct, key, append(args, end.command...)...).ends(end.status)
					early := r.run(r.direct, key, "-q", "--", "true").status()
					if time.Since(began) < minHold && early != 75 {
						r.Errorf("%s: status %d while it cools", key, early)
					}
					if early == 75 { // within a minute, long before the lease would end
						r.run(r.direct, key, "-q", "--wait", "1m", "--", "true").ends(0)
					}
					if d := time.Since(began); d < minHold {
						r.Errorf("%s: granted again after %v", key, d)
					} else {
						r.Logf("%s: granted again and ended after %v", key, d)
					}
				})
			}
		}
		all.Wait()
	})
}

// TestMinHoldOfTheDead: where nobody is left to give the key back, it is free when the
// lease has ended, if that is later.
func TestMinHoldOfTheDead(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	onStores(t, func(r *rig) {
		began := time.Now()
		j := r.run(r.direct, "k", "--ttl", ttl.String(), "--min-hold", "1s", "--", "sh", "-c", "echo $$ >pid; exec sleep 1000")
		r.await("pid")
		var guard int
		until(r, "a guard", func() bool { guard = guardOf(j.cmd.Process.Pid); return guard != 0 })
		// All are stopped first, so that nobody sees another die; the command dies with flockd anyway.
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, pid := range []int{int(r.number("pid")), guard, j.cmd.Process.Pid} {
				must(r.T, syscall.Kill(pid, sig))
			}
		}
		j.ends(137)
		r.run(r.direct, "k", "-q", "--wait", "1m", "--", "true").ends(0)
		if d := time.Since(began); d < ttl {
			r.Errorf("granted again after %v, with a lease of %v", d, ttl)
		}
	})
}
