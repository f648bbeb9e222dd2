//go:build cgo && linux

package sqlite

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// locker names the process that has the database locked for writing, as far as
// /proc/locks tells. It must not open the files themselves: closing them
// would drop the locks that this process has.
func locker(path string) string {
	marks := map[string]bool{}
	for _, p := range []string{path, path + "-shm"} {
		var st unix.Stat_t
		if unix.Stat(p, &st) == nil {
			marks[fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)] = true
		}
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return "another process"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 1: POSIX  ADVISORY  WRITE 4711 fe:00:1234 120 120
		field := strings.Fields(lines.Text())
		if len(field) == 8 && field[1] == "POSIX" && field[3] == "WRITE" && marks[field[5]] {
			return process(field[4])
		}
	}
	return "another process"
}

// process describes a process by its number: name, and state if it is stopped.
func process(pid string) string {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	_, after, ok := strings.Cut(string(stat), " (")
	end := strings.LastIndex(after, ") ")
	if err != nil || !ok || end < 0 {
		return "process " + pid
	}
	name, state := after[:end], after[end+2:]
	if strings.HasPrefix(state, "T") {
		return fmt.Sprintf("process %s (%s), which is stopped", pid, name)
	}
	return fmt.Sprintf("process %s (%s)", pid, name)
}
