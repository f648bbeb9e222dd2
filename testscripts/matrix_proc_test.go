//go:build linux

package testscripts

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// argv is the command line of a process with a blank after each argument. It is
// empty as soon as none of its instructions can follow, and for a zombie.
func argv(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
}

// processes are those that live and are wanted, each but ourselves.
func processes(wanted func(pid int) bool) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err == nil && pid != os.Getpid() && wanted(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// children of a process, zombies too.
func children(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// state of a process as in /proc/PID/stat: 'Z' for a zombie, 0 for none.
func state(pid int) byte {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := bytes.LastIndex(stat, []byte(") ")); i >= 0 {
		return stat[i+2]
	}
	return 0
}

// over is the state of a process that is dead, a zombie or none.
func over(state byte) bool { return state == 0 || state == 'Z' || state == 'X' }

// guardOf is the guard of a flockd, once it is deaf to TERM, or 0.
func guardOf(flockd int) int {
	for _, pid := range children(flockd) {
		if strings.HasPrefix(argv(pid), "flockd-guard ") && deafened(pid) {
			return pid
		}
	}
	return 0
}

// deafened reports whether a guard minds no signal any more: USR1 is the first that it
// ignores, after those that it tells flockd of.
func deafened(pid int) bool {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, mask, _ := strings.Cut(string(status), "SigIgn:")
	mask, _, _ = strings.Cut(strings.TrimSpace(mask), "\n")
	ignored, _ := strconv.ParseUint(mask, 16, 64)
	return ignored&(1<<9) != 0
}

// cgroup2 is where the second version of cgroups is mounted; "" is nowhere, and no test
// begins there.
func cgroup2() string {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); fields[2] == "cgroup2" {
			return fields[1]
		}
	}
	return ""
}

// ownCgroup is the folder of the cgroup that we are in.
func ownCgroup() string { return cgroupOf(os.Getpid()) }

// cgroupOf is the folder of the cgroup that a process is in.
func cgroupOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join(cgroup2(), path)
		}
	}
	return cgroup2()
}

// leafOf is the cgroup of a process that a flockd has made for its command, or "".
func leafOf(pid int) string {
	if folder := cgroupOf(pid); strings.HasPrefix(filepath.Base(folder), "flockd-") {
		return folder
	}
	return ""
}

// leaves are the cgroups that a flockd has made for its command.
func leaves(flockd int) []string {
	found, _ := filepath.Glob(filepath.Join(ownCgroup(), fmt.Sprintf("flockd-%d-*", flockd)))
	return found
}
