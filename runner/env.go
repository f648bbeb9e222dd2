package runner

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"flockd/backends"
)

// ours are the variables that are set for a command, and so never inherited:
// the ones of an outer hold would speak of the wrong lease.
var ours = []string{
	"FLOCKD_KEY", "FLOCKD_TOKEN", "FLOCKD_ID", "FLOCKD_HELD", "FLOCKD_TTL",
	"FLOCKD_SLOT", "FLOCKD_ONCE", "FLOCKD_BACKEND", "FLOCKD_DEPOSED",
}

// Environ is the environment of a command that follows a term under lease. Its FLOCKD_HELD names
// the enclosing holds alone: by the ID of the ended one its guard, which may have yet to hear of the
// end, would take it for what the command has left, and kill it.
func Environ(o *Options, c Command, lease backends.Lease) []string {
	return environIn(o, c, &lease, o.Chain)
}

// environ is the environment of a command under lease; nil: one that runs
// unlocked, which gets no token.
func environ(o *Options, c Command, lease *backends.Lease) []string {
	if lease == nil {
		return environIn(o, c, nil, o.Chain)
	}
	return environIn(o, c, lease, append(slices.Clone(o.Chain), lease.ID))
}

// environIn is that of one within the holds held, outermost first.
func environIn(o *Options, c Command, lease *backends.Lease, held []string) []string {
	env := slices.DeleteFunc(slices.Clone(c.Env), isOurs)
	set := func(name, value string) { env = append(env, name+"="+value) }
	set("FLOCKD_KEY", o.Request.Key)
	if lease != nil {
		set("FLOCKD_TOKEN", strconv.FormatInt(int64(lease.Token), 10))
		set("FLOCKD_ID", lease.ID)
		set("FLOCKD_TTL", seconds(lease.TTL))
		if lease.Mode == backends.Slots {
			set("FLOCKD_SLOT", strconv.Itoa(lease.Slot))
		}
		if lease.Run != "" {
			set("FLOCKD_ONCE", lease.Run)
		}
	}
	if len(held) > 0 {
		set("FLOCKD_HELD", strings.Join(held, ","))
	}
	if c.Backend != nil {
		set("FLOCKD_BACKEND", c.Backend())
	}
	return env
}

func isOurs(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains(ours, name)
}

// seconds writes d with decimals only where it needs them.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
