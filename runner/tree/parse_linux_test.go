package tree

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestCgroupPath(t *testing.T) {
	for text, want := range map[string]string{
		"0::/\n":                              "/",
		"9:name=systemd:/x\n0::/user/a b:c\n": "/user/a b:c",
		"0::/a":                               "/a",
		"0::/../other\n":                      "/../other",
		"1:cpu:/a\n":                          "",
		"10::/a\n":                            "",
		"0::\n":                               "",
		"":                                    "",
	} {
		if got := cgroupPath([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

const (
	hybrid = `24 1 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw
30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
`
	unified   = "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
	container = "40 24 0:30 /docker/abc /sys/fs/cgroup ro master:9 - cgroup2 cgroup ro\n"
	outside   = "41 24 0:30 /.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
	escaped   = `42 24 0:30 /a\040b\134\011c /mnt/x\012y rw - cgroup2 cgroup rw` + "\n"
	second    = "43 24 0:30 /docker /mnt rw - cgroup2 cgroup rw\n"
	cut       = "44 24 0:30 / /mnt"
)

// folders: where a cgroup is, by the mounts there are.
var folders = []struct{ path, mountinfo, folder string }{
	{"/", hybrid, "/sys/fs/cgroup/unified"},
	{"/a/b", hybrid, "/sys/fs/cgroup/unified/a/b"},
	{"/a", unified, "/sys/fs/cgroup/a"},
	{"/docker/abc", container, "/sys/fs/cgroup"},
	{"/docker/abc/x", container, "/sys/fs/cgroup/x"},
	{"/docker/abc/x", container + second, "/mnt/abc/x"}, // the later mount
	{"/a b\\\tc/d", escaped, "/mnt/x\ny/d"},
}

func TestFolderOf(t *testing.T) {
	for _, tc := range append(folders, []struct{ path, mountinfo, folder string }{
		{"/docker/abcd", container, ""},
		{"/docker", container, ""},
		{"/", container, ""},
		{"/../x", unified, ""}, // in another namespace's cgroup
		{"/", outside, ""},
		{"/..", outside, "/sys/fs/cgroup"},
		{"/../../x", outside, ""},
		{"/a", "", ""},
		{"/a", cut, ""},
		{"/a", hybrid + cut, "/sys/fs/cgroup/unified/a"},
	}...) {
		if got := folderOf(tc.path, []byte(tc.mountinfo)); got != tc.folder {
			t.Errorf("%q: %q, want %q of\n%s", tc.path, got, tc.folder, tc.mountinfo)
		}
	}
}

func TestInsideOf(t *testing.T) {
	for _, tc := range append(folders, []struct{ path, mountinfo, folder string }{
		{"", hybrid, "/sys/fs/cgroup/cpu"},
		{"", unified, "/mnt"},
	}...) {
		if tc.path == "/" {
			tc.path = "" // no leaf is there
		}
		if got := insideOf(tc.folder, []byte(tc.mountinfo)); got != tc.path {
			t.Errorf("%q: %q, want %q of\n%s", tc.folder, got, tc.path, tc.mountinfo)
		}
	}
}

func TestUnescape(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "/a": "/a", `\040`: " ", `a\134040b`: `a\040b`, `\303\244`: "ä", `x\04`: `x\04`, `\`: `\`,
	} {
		if got := unescape([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestEachEntry(t *testing.T) {
	dir := t.TempDir()
	var want []int
	for n, i := 1, 0; i < 10; i++ { // numbers of 1 to 10 digits
		want = append(want, n)
		n = 10*n + i
	}
	for _, n := range want {
		name := strconv.Itoa(n)
		for _, name := range []string{name, "a" + name, name + "a"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []int
	if !each(dir, 0, func(n int) { got = append(got, n) }) {
		t.Error("it can't be read")
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if each(filepath.Join(dir, "none"), 0, func(int) {}) || each(filepath.Join(dir, "1"), 0, func(int) {}) {
		t.Error("no folder can be read")
	}
}

// A folder whose entries don't fit isn't taken for an empty one.
func TestEachEntryThatDoesNotFit(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, strings.Repeat("1", 50)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if each(dir, 0, func(int) {}) {
		t.Error("it is said to have been read")
	}
}

func TestEachProcess(t *testing.T) {
	seen := map[int]bool{}
	if !each("/proc", firstProcess, func(pid int) { seen[pid] = true }) {
		t.Error("/proc can't be read")
	}
	for _, pid := range []int{1, os.Getpid(), os.Getppid()} {
		if !seen[pid] {
			t.Errorf("%d isn't there", pid)
		}
	}
}

func TestLeadingNumber(t *testing.T) {
	for text, want := range map[string]int{"12\x00": 12, "0\x00\x00": 0, "7\x00x": 7, "\x00": -1, "1a\x00": -1, "-1\x00": -1, "a1\x00": -1} {
		n, ok := leadingNumber([]byte(text))
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("%q: %d, %v", text, n, ok)
		}
	}
}

func TestNumbers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "numbers")
	var many []int
	for n := range 3000 {
		many = append(many, 10000+n) // 6 bytes each: chunks end within numbers
	}
	for _, want := range [][]int{nil, {0}, {1, 22, 333}, many} {
		for _, end := range []string{"", "\n", " "} {
			text := strings.Trim(fmt.Sprint(want), "[]")
			if err := os.WriteFile(file, []byte(text+end), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := numbers(file); !slices.Equal(got, want) {
				t.Errorf("%d numbers, end %q: got %d", len(want), end, len(got))
			}
		}
	}
	if got := numbers(file + "none"); got != nil {
		t.Errorf("no file: %v", got)
	}
}
