package cmd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flockd/backends"
	"flockd/runner"
)

// Where a value comes from; otherwise it is a variable's name or FILE:LINE.
const (
	fromDefault = "default"
	fromFlag    = "flag"
)

// value is a flag that takes one value, once, and that a configuration file may
// set as well.
type value[T any] struct {
	kind  string // what the help calls it: DUR
	parse func(text string) (T, error)
	of    T
	text  string // as it was given
	from  string
	times int // that it was on the command line
}

// newValue has text as its default.
func newValue[T any](kind, text string, parse func(string) (T, error)) *value[T] {
	of, err := parse(text)
	if err != nil {
		panic(fmt.Sprintf("default %q: %v", text, err))
	}
	return &value[T]{kind: kind, parse: parse, of: of, text: text, from: fromDefault}
}

// unsetValue has a default that no text says.
func unsetValue[T any](kind string, of T, parse func(string) (T, error)) *value[T] {
	return &value[T]{kind: kind, parse: parse, of: of, from: fromDefault}
}

func newSwitch() *value[bool] { return newValue("bool", "false", parseBool) }

func (v *value[T]) String() string { return v.text }

func (v *value[T]) Type() string { return v.kind }

// Set takes the value from the command line. Twice is no error yet: completion
// reads the line twice.
func (v *value[T]) Set(text string) error {
	of, err := v.parse(text)
	if err == nil {
		v.of, v.text, v.from = of, text, fromFlag
		v.times++
	}
	return err
}

// twice says that one of two values was lost; empty: none was.
func (v *value[T]) twice() string {
	if v.times > 1 {
		return "is given twice"
	}
	return ""
}

// preset takes the value from elsewhere, unless one is there already: presets
// come strongest first. It checks the value in any case.
func (v *value[T]) preset(text, from string) error {
	of, err := v.parse(text)
	if err == nil && v.from == fromDefault {
		v.of, v.text, v.from = of, text, from
	}
	return err
}

func (v *value[T]) given() bool { return v.from == fromFlag }

// exits are the exit codes that the user chose, by class.
type exits struct {
	code map[runner.Class]int
	from map[runner.Class]string
	lost string // what of the command line didn't count: see twice
}

// exitClasses are the classes that --exit takes.
var exitClasses = []runner.Class{runner.Skipped, runner.Done, runner.Lost, runner.Unavailable, runner.MaxRuntime}

func newExits() *exits {
	return &exits{code: map[runner.Class]int{}, from: map[runner.Class]string{}}
}

func (e *exits) String() string {
	var list []string
	for _, class := range slices.Sorted(maps.Keys(e.code)) {
		list = append(list, fmt.Sprintf("%s=%d", class, e.code[class]))
	}
	return strings.Join(list, ",")
}

func (e *exits) Type() string { return "CLASS=N" }

func (e *exits) Set(text string) error {
	class, code, err := parseExit(text)
	if err != nil {
		return err
	}
	if e.from[class] == fromFlag {
		e.lost = fmt.Sprintf("gives %s two exit codes: %d and %d", class, e.code[class], code)
	}
	e.code[class], e.from[class] = code, fromFlag
	return nil
}

func (e *exits) twice() string { return e.lost }

func (e *exits) preset(text, from string) error {
	class, code, err := parseExit(text)
	if _, set := e.code[class]; err == nil && !set {
		e.code[class], e.from[class] = code, from
	}
	return err
}

func parseExit(text string) (runner.Class, int, error) {
	class, number, ok := strings.Cut(text, "=")
	if !ok {
		return "", 0, errors.New("expected CLASS=N")
	}
	if !slices.Contains(exitClasses, runner.Class(class)) {
		return "", 0, fmt.Errorf("no class %q: there are %s", class, listed(exitClasses))
	}
	code, err := strconv.Atoi(number)
	if err != nil || code < 0 || code > 255 {
		return "", 0, errors.New("an exit code is 0 to 255")
	}
	return runner.Class(class), code, nil
}

// skippedCode is -E.
type skippedCode struct{ *exits }

func (s skippedCode) String() string { return "" }

func (s skippedCode) Type() string { return "N" }

func (s skippedCode) Set(text string) error {
	return s.exits.Set(string(runner.Skipped) + "=" + text)
}

// oneOf parses a word out of a list.
func oneOf[T ~string](words ...T) func(string) (T, error) {
	return func(text string) (T, error) {
		if !slices.Contains(words, T(text)) {
			return "", fmt.Errorf("there is %s", listed(words))
		}
		return T(text), nil
	}
}

func listed[T ~string](words []T) string {
	var list []string
	for _, w := range words {
		list = append(list, string(w))
	}
	return strings.Join(list, ", ")
}

func parseText(text string) (string, error) { return text, nil }

func parseBool(text string) (bool, error) {
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, errors.New("there is true and false")
	}
	return b, nil
}

func parseKey(text string) (string, error) { return text, backends.CheckKey(text) }

func parseWait(text string) (time.Duration, error) {
	if text == "forever" {
		return runner.Forever, nil
	}
	d, err := atLeast(0)(text)
	if errors.Is(err, errDuration) {
		err = fmt.Errorf("%w, nor forever", err)
	}
	return d, err
}

func parseSignal(text string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= 64 {
		return syscall.Signal(n), nil
	}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	if sig := unix.SignalNum("SIG" + name); sig != 0 {
		return sig, nil
	}
	return 0, errors.New("no signal such as URG, USR1 or 10")
}

// maxNote bounds what every waiter has to read, in bytes.
const maxNote = 512

func parseNote(text string) (string, error) {
	if len(text) > maxNote {
		return "", fmt.Errorf("a note has %d bytes at most, this one %d", maxNote, len(text))
	}
	return text, nil
}
