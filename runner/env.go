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
	"FLOCKD_SLOT", "FLOCKD_ONCE", "FLOCKD_BACKEND",
}

// environ is the environment of a command under lease; nil: one that runs
// unlocked, which gets no token.
func environ(o *Options, lease *backends.Lease) []string {
	env := slices.DeleteFunc(slices.Clone(o.Command.Env), isOurs)
	set := func(name, value string) { env = append(env, name+"="+value) }
	held := o.Chain
	set("FLOCKD_KEY", o.Request.Key)
	if lease != nil {
		held = append(slices.Clone(held), lease.ID)
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
	if o.Command.Backend != nil {
		set("FLOCKD_BACKEND", o.Command.Backend())
	}
	return env
}

func isOurs(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains(ours, name)
}

// seconds writes d with decimals only where it needs them.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
