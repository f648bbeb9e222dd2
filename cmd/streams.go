package cmd

import (
	"os"
	"strings"
)

// Streams is what a program gets from its surroundings.
type Streams struct {
	Name   string   // the program's own
	Args   []string // without the program's own name
	Env    []string // NAME=VALUE
	Stdin  *os.File
	Stdout *os.File
	Stderr *os.File
	UID    int // the effective user

	// Process says that this is the whole process: its descriptors may be
	// closed, its signals caught, and it may end by one.
	Process bool
}

// System is the surroundings of this process.
func System() Streams {
	return Streams{
		Name:    os.Args[0],
		Args:    os.Args[1:],
		Env:     os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		UID:     os.Geteuid(),
		Process: true,
	}
}

// variable looks an environment variable up; of two, the first counts.
func (s Streams) variable(name string) (value string, ok bool) {
	for _, entry := range s.Env {
		if n, v, _ := strings.Cut(entry, "="); n == name {
			return v, true
		}
	}
	return "", false
}

// getenv is the value of an environment variable; empty: unset or empty.
func (s Streams) getenv(name string) string {
	value, _ := s.variable(name)
	return value
}
