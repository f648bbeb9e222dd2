package redis

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"flockd/backends"
)

// newer refuses a record of a later version.
func newer(what, key string, v int) error {
	return backends.Refuse("use the newer flockd here as well",
		"the %s of %q was written by a newer flockd (record version %d, this one knows %d)", what, key, v, backends.RecordVersion)
}

func unreadable(what, key string) error {
	return backends.Refuse("end the flockd runs that use the key, then delete what Redis has of it",
		"the %s of %q is no record of flockd's", what, key)
}

// failed names the request that err is about. Nil stays nil.
func (s *Store) failed(op, key string, err error) error {
	if err == nil || errors.Is(err, backends.ErrHeld) || errors.Is(err, backends.ErrStale) {
		return err
	}
	return fmt.Errorf("%s %q: %w", op, key, s.to.classify(about(key, err)))
}

// scripted is what our scripts say when they can't read a record. Few runs of the
// program see an error of a server's, so no pattern is compiled before one does.
var scripted = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`flockd-(newer|unreadable|clock) ?(\d*)`)
})

// about turns the errors of our scripts into ours.
func about(key string, err error) error {
	text := said(err)
	if text == "" {
		return err
	}
	m := scripted().FindStringSubmatch(text)
	if m == nil {
		return err
	}
	switch m[1] {
	case "newer":
		v, _ := strconv.Atoi(m[2])
		return newer("line", key, v)
	case "clock":
		return backends.Refuse("set the clock of the Redis server", "the token of %q has reached 2^53", key)
	}
	return unreadable("line", key)
}

// inScript finds the code of an error that was raised by a command of a script:
// before version 7, Redis writes it in the middle.
var inScript = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|: -)([A-Z]+) `) })

// codeOf is the first word of an error of the server's, which says of what kind it is.
func codeOf(text string) string {
	all := inScript().FindAllStringSubmatch(text, -1)
	if all == nil {
		return ""
	}
	return all[len(all)-1][1]
}

const rightsHint = "docs/stores.md has the ACL line that flockd needs"

// classify turns the errors of go-redis into ours. What may pass is an ordinary error.
func (s *server) classify(err error) error {
	var link *linkError
	switch {
	case errors.As(err, &link) && link.hint != "":
		return &backends.RefusedError{Err: errors.New(link.text), Hint: link.hint}
	case errors.As(err, &link):
		return link
	case errors.Is(err, context.DeadlineExceeded):
		return s.fault(context.DeadlineExceeded, "no answer in time")
	case errors.Is(err, redis.ErrClosed):
		return errors.New("the store is closed")
	}
	switch text := said(err); {
	case text != "":
		return s.classifyAnswer(codeOf(text), text)
	case notRedis(err):
		return s.fault(err, "what it says isn't Redis's protocol")
	}
	return err
}

// notRedis tells whether err is go-redis's word for what it can't read. That quotes
// what the server sent, which may be what we had sent to it.
func notRedis(err error) bool {
	var number *strconv.NumError
	return errors.As(err, &number) || strings.HasPrefix(err.Error(), "redis: ") && !errors.Is(err, redis.ErrPoolTimeout)
}

// classifyAnswer judges an error that the server sent.
func (s *server) classifyAnswer(code, text string) error {
	switch code {
	case "WRONGPASS":
		return backends.Refuse("", "%s refuses the user or password", s.name)
	case "NOAUTH":
		return backends.Refuse("give a password in the URL or by ?password-file=", "%s wants a password", s.name)
	case "NOPERM":
		return backends.Refuse(rightsHint, "%s: the user lacks a right: %s", s.name, backends.Quote(text, s.password))
	case "READONLY":
		return s.replica()
	case "MOVED", "ASK", "CROSSSLOT":
		return backends.Refuse("name a server that isn't part of a cluster", "%s is a node of a Redis Cluster", s.name)
	case "WRONGTYPE":
		return backends.Refuse("?prefix= chooses other names", "%s: what flockd keeps its records in is something else there", s.name)
	case "DENIED":
		return backends.Refuse("set a password or a bind address there", "%s is in protected mode and serves its own host only", s.name)
	}
	return s.classifyTrouble(code, text)
}

// classifyTrouble puts in words what may pass, and what is said without a code.
func (s *server) classifyTrouble(code, text string) error {
	if trouble := passing(code); trouble != "" {
		return fmt.Errorf("%s %s", s.name, trouble)
	}
	switch lower := strings.ToLower(text); {
	case strings.Contains(lower, "unauthenticated"): // the request is longer than it takes from strangers
		return s.classifyAnswer("NOAUTH", text)
	case strings.Contains(lower, "max number of clients"):
		return fmt.Errorf("%s has all the clients that it takes", s.name)
	case strings.Contains(lower, "db index is out of range"), strings.Contains(lower, "invalid db index"):
		return backends.Refuse("", "%s has no database %d", s.name, s.db)
	case strings.Contains(lower, "unknown command"):
		text, _, _ = strings.Cut(text, ", with args") // the script's text
		return backends.Refuse("", "%s doesn't know a command that flockd needs: %s", s.name, backends.Quote(text, s.password))
	case strings.Contains(lower, "can't run this command"), strings.Contains(lower, "acl failure"),
		strings.Contains(lower, "can't access at least one of the keys"):
		return backends.Refuse(rightsHint, "%s: the user lacks a right: %s", s.name, backends.Quote(text, s.password))
	case strings.Contains(lower, "called without any password configured"):
		return backends.Refuse("leave the password out of the URL", "%s has no password", s.name)
	}
	return fmt.Errorf("%s: %s", s.name, backends.Quote(text, s.password))
}

// passing is the state that a server with such an error is in, if it may pass; else "".
func passing(code string) string {
	switch code {
	case "LOADING":
		return "is loading its data"
	case "OOM":
		return "is out of memory (maxmemory)"
	case "MISCONF":
		return "takes no writes, for it can't save its data (MISCONF)"
	case "NOREPLICAS":
		return "takes no writes, for it has too few replicas (min-replicas-to-write)"
	case "BUSY":
		return "is busy with a script"
	case "MASTERDOWN":
		return "has lost its primary"
	case "CLUSTERDOWN":
		return "is in a cluster that is down"
	case "TRYAGAIN":
		return "is moving its data"
	}
	return ""
}
