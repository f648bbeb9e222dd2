package tree

import (
	"bytes"
	"iter"
	"strings"

	"golang.org/x/sys/unix"
)

// longestMountinfo bounds what is read of it: hosts with thousands of containers
// have megabytes.
const longestMountinfo = 4 << 20

// ownCgroup is the folder of the cgroup v2 that this process is in; "": there is none
// that can be seen.
func ownCgroup() string {
	path := cgroupPath(read("/proc/self/cgroup", make([]byte, 16<<10)))
	if path == "" {
		return ""
	}
	return folderOf(path, readAll("/proc/self/mountinfo", longestMountinfo))
}

// readAll reads a file of unknown size, or the first most bytes.
func readAll(path string, most int) []byte {
	for size := 16 << 10; ; size *= 4 {
		text := read(path, make([]byte, min(size, most)))
		if len(text) < size || size >= most {
			return text
		}
	}
}

// cgroupPath is the v2 line of a /proc/PID/cgroup; "": there is none.
func cgroupPath(text []byte) string {
	for line := range bytes.Lines(text) {
		if path, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\n")), []byte("0::")); ok && len(path) > 0 && path[0] == '/' {
			return string(path)
		}
	}
	return ""
}

// mounts are the places where cgroup v2 is mounted, with the cgroup that is seen
// there.
func mounts(mountinfo []byte) iter.Seq2[string, string] {
	return func(yield func(root, point string) bool) {
		for line := range bytes.Lines(mountinfo) {
			before, after, ok := bytes.Cut(line, []byte(" - "))
			fields := bytes.Fields(before)
			const root, point = 3, 4 // of proc_pid_mountinfo(5)
			if ok && bytes.HasPrefix(after, []byte("cgroup2 ")) && len(fields) > point {
				if !yield(unescape(fields[root]), unescape(fields[point])) {
					return
				}
			}
		}
	}
}

// folderOf finds where the cgroup at path is mounted. Later mounts hide earlier ones, so
// that the last one counts.
func folderOf(path string, mountinfo []byte) (folder string) {
	for root, point := range mounts(mountinfo) {
		if below, ok := below(path, root); ok {
			folder = point + below
		}
	}
	return folder
}

// insideOf turns a folder that folderOf found into the cgroup's path.
func insideOf(folder string, mountinfo []byte) (path string) {
	for root, point := range mounts(mountinfo) {
		if below, ok := below(folder, point); ok {
			path = strings.TrimSuffix(root, "/") + below
		}
	}
	return path
}

// below is path as seen from root; not ok: it isn't below.
func below(path, root string) (string, bool) {
	if root == "/" {
		root = ""
	}
	if path == "/" {
		path = ""
	}
	n := len(root)
	if len(path) < n || path[:n] != root || len(path) > n && path[n] != '/' {
		return "", false
	}
	if len(path) >= n+3 && path[n:n+3] == "/.." { // of another cgroup namespace
		return "", false
	}
	return path[n:], true
}

// unescape undoes the octal escapes of /proc's files.
func unescape(field []byte) string {
	var out []byte
	for i := 0; i < len(field); i++ {
		c := field[i]
		if c == '\\' && i+3 < len(field) {
			c = (field[i+1]-'0')<<6 | (field[i+2]-'0')<<3 | (field[i+3] - '0')
			i += 3
		}
		out = append(out, c)
	}
	return string(out)
}

func openBelow(parent int, name string) (int, error) {
	return unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// foldersIn are the names of the folders in a folder.
func foldersIn(fd int) (names []string) {
	again, err := openBelow(fd, ".") // an offset of its own
	if err != nil {
		return nil
	}
	defer unix.Close(again)
	var buf [4096]byte
	for {
		n, err := unix.Getdents(again, buf[:])
		if err != nil || n <= 0 {
			return names
		}
		const kind, name = 18, 19
		for entry := buf[:n]; len(entry) > name; {
			size := int(entry[16]) | int(entry[17])<<8
			text, _, _ := bytes.Cut(entry[name:size], []byte{0})
			if entry[kind] == unix.DT_DIR && text[0] != '.' {
				names = append(names, string(text))
			}
			entry = entry[size:]
		}
	}
}
