package host

import (
	"fmt"
	"os"
	"strings"
)

// Process describes a process by its number: its name, and its state if it is stopped,
// as far as /proc tells.
func Process(pid string) string {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	_, after, ok := strings.Cut(string(stat), " (")
	end := strings.LastIndex(after, ") ")
	if err != nil || !ok || end < 0 {
		return "process " + pid
	}
	name, state := after[:end], after[end+2:]
	if strings.HasPrefix(state, "T") || strings.HasPrefix(state, "t") {
		return fmt.Sprintf("process %s (%s), which is stopped", pid, name)
	}
	return fmt.Sprintf("process %s (%s)", pid, name)
}
