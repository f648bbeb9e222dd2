//go:build cgo && linux

package sqlite

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"flockd/backends"
)

// claim is a row of the table claims, in the order of its columns.
type claim struct {
	seq                                        int64
	v                                          int
	prefix, key, id                            string
	state                                      backends.State
	mode                                       backends.Mode
	slots, slot                                int
	token                                      backends.Token
	boot                                       string
	asked, granted, renewed, expires, keptTill int64
	owner, notice                              string
	toldOfIt                                   bool           // a renewal has told of the notice
	run                                        sql.NullString // of Request.Once; empty: that of the period by the grant
	keep                                       time.Duration
}

// scan reads a claim, and refuses one of a newer version.
func scan(row interface{ Scan(...any) error }) (*claim, error) {
	var c claim
	err := row.Scan(&c.seq, &c.v, &c.prefix, &c.key, &c.id, &c.state, &c.mode, &c.slots, &c.slot,
		&c.token, &c.boot, &c.asked, &c.granted, &c.renewed, &c.expires, &c.keptTill,
		&c.owner, &c.notice, &c.toldOfIt, &c.run, &c.keep)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case c.v > backends.RecordVersion:
		return nil, newer("line", c.key, c.v)
	}
	return &c, nil
}

// leased reports whether the claim's lease or place hasn't run out. Whoever made a
// claim in another boot is gone with it.
func (c *claim) leased(boot string, now int64) bool { return c.boot == boot && now < c.expires }

// live reports whether the claim still has its place in the line.
func (c *claim) live(boot string, now int64) bool {
	return c.boot == boot && now < c.ends()
}

// ends is when the claim leaves the line unless it is extended.
func (c *claim) ends() int64 { return max(c.expires, c.keptTill) }

// waits reports whether there is a claim, and it waits.
func (c *claim) waits() bool { return c != nil && c.state == backends.Waiting }

// mayHold reports whether the claim may be granted the key when its turn comes.
func (c *claim) mayHold() bool { return c.waits() && c.notice == "" }

// public is the claim as others see it. Instants are shown by the wall clock as it
// is now, so that a clock which was set since doesn't tell a wrong age.
func (c *claim) public(now int64, wall time.Time) backends.Claim {
	at := func(mono int64) time.Time {
		if mono == 0 {
			return time.Time{}
		}
		return wall.Add(time.Duration(mono - now))
	}
	b := backends.Claim{
		ID: c.id, State: c.state, Mode: c.mode, Slots: c.slots, Slot: c.slot, Token: c.token,
		Asked: at(c.asked), Granted: at(c.granted), Renewed: at(c.renewed), Expires: at(c.ends()),
	}
	if b.State == backends.Holding && now >= c.expires {
		b.State = backends.Cooling // its holder is gone without a word
	}
	if b.State == backends.Holding {
		b.TTL = time.Duration(c.expires - c.renewed)
	}
	json.Unmarshal([]byte(c.owner), &b.Owner) // for display only: what can't be read is left out
	b.Notice = c.told()
	return b
}

// encode is v as JSON text; v is one of our own plain types.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sqlite: %v", err))
	}
	return string(text)
}
