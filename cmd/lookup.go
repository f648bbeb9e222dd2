package cmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"flockd/runner"
)

// defaultPath is where a command is looked for without PATH, as execvp(3) does.
const defaultPath = "/bin:/usr/bin"

// lookUp finds the command named name as execvp(3) would: as it is if it has a
// slash, otherwise in PATH, where "" is the working folder. The failure's class
// is not-found or, where the file can't be executed, not-started.
func lookUp(name string, streams Streams) (string, error) {
	if strings.Contains(name, "/") {
		if err := runnable(name); err != nil {
			return "", notRunnable(name, err)
		}
		return name, nil
	}
	path, ok := streams.variable("PATH")
	if !ok {
		path = defaultPath
	}
	var denied error
	for _, folder := range filepath.SplitList(path) {
		if name == "" {
			break
		}
		file := strings.TrimSuffix(folder, "/") + "/" + name
		if folder == "" {
			file = "./" + name
		}
		err := runnable(file)
		switch {
		case err == nil:
			return file, nil
		case denied == nil && !isMissing(err) && !errors.Is(err, syscall.ENAMETOOLONG): // no file has such a name
			denied = notRunnable(file, err)
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &failure{classNotFound, errors.New(shortened(name) + ": command not found"), pathHint(name, path)}
}

// pathHint shows where a command was looked for: cron's PATH is short.
func pathHint(name, path string) string {
	if name == "" {
		return ""
	}
	return "it was looked for in PATH, which is " + shortened(path)
}

// runnable says what is in the way of executing file.
func runnable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return errors.Unwrap(err)
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
}

func isMissing(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR)
}

func notRunnable(file string, err error) error {
	if isMissing(err) {
		return &failure{classNotFound, errors.New(shortened(file) + ": command not found"), ""}
	}
	return &failure{runner.NotStarted, fmt.Errorf("%s: %w", shortened(file), err), ""}
}
