package redis

import (
	"encoding/json"
	"strconv"
	"time"

	"flockd/backends"
)

// micros is an instant or a token as the records have it: a decimal string, "0" for
// none. An instant is µs since 1970 by the server's clock.
type micros int64

func (m *micros) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	*m = micros(n)
	return err
}

func parseMicros(text string) micros {
	n, _ := strconv.ParseInt(text, 10, 64)
	return micros(n)
}

// time is the instant, the zero Time for none.
func (m micros) time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(m))
}

// span is the length of time, which may be negative.
func (m micros) span() time.Duration { return time.Duration(m) * time.Microsecond }

// claim is a record of the hash claims.
type claim struct {
	V       int             `json:"v"`
	State   backends.State  `json:"state"`
	Mode    backends.Mode   `json:"mode"`
	Slots   int             `json:"slots"`
	Slot    int             `json:"slot"`
	Owner   backends.Owner  `json:"owner"`
	Asked   micros          `json:"asked"`
	Token   micros          `json:"token"`
	Granted micros          `json:"granted"`
	Renewed micros          `json:"renewed"`
	Ends    micros          `json:"ends"` // of the place or the lease
	Kept    micros          `json:"kept"` // grant + min-hold: taken until then, even if the lease ends
	Notice  backends.Notice `json:"notice"`
}

// public is the claim as others see it at now.
func (c claim) public(id string, now micros) backends.Claim {
	state := c.State
	if state == backends.Holding && c.Ends <= now {
		state = backends.Cooling // its holder is gone without a word
	}
	var ttl time.Duration
	if state == backends.Holding {
		ttl = (c.Ends - c.Renewed).span()
	}
	return backends.Claim{
		ID: id, State: state, Mode: c.Mode, Slots: c.Slots, Slot: c.Slot, Token: backends.Token(c.Token), Owner: c.Owner,
		Asked: c.Asked.time(), Granted: c.Granted.time(), Renewed: c.Renewed.time(), Expires: max(c.Ends, c.Kept).time(),
		Notice: c.Notice, TTL: ttl,
	}
}

// noticeOf reads a notice. What can't be read asks nothing.
func noticeOf(text string) (notice backends.Notice) {
	if json.Unmarshal([]byte(text), &notice) != nil {
		return backends.Notice{}
	}
	return notice
}

// run is a record of a run that ended.
type run struct {
	V     int            `json:"v"`
	Owner backends.Owner `json:"owner"`
	Token micros         `json:"token"`
	Start micros         `json:"start"`
	End   micros         `json:"end"`
	Class string         `json:"class"`
	Exit  int            `json:"exit"`

	Notice backends.Notice `json:"notice"`
}

func (r run) public() *backends.Run {
	return &backends.Run{
		Owner: r.Owner, Token: backends.Token(r.Token), Start: r.Start.time(), End: r.End.time(), Class: r.Class, Exit: r.Exit,
		Notice: r.Notice,
	}
}

// entry is a record of a completed run.
type entry struct {
	V       int            `json:"v"`
	Token   micros         `json:"token"`
	Owner   backends.Owner `json:"owner"`
	At      micros         `json:"at"`
	Forgets micros         `json:"forgets"` // 0: never
}

func (e entry) public(run string) backends.Entry {
	return backends.Entry{
		Run: run, Token: backends.Token(e.Token), Owner: e.Owner, At: e.At.time(), Forgets: e.Forgets.time(),
	}
}

// decode reads a record, and refuses one of a newer version: no more than the
// version is read of that.
func decode[T claim | run | entry](text, what, key string) (record T, err error) {
	var head struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal([]byte(text), &head); err != nil || head.V < 1 {
		return record, unreadable(what, key)
	}
	if head.V > backends.RecordVersion {
		return record, newer(what, key, head.V)
	}
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		return record, unreadable(what, key)
	}
	return record, nil
}

// encode is v as JSON text; v is one of our own plain types.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("redis: " + err.Error())
	}
	return string(text)
}
