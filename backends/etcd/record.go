package etcd

import (
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// record is the JSON of a claim. Times are by its client's clock.
type record struct {
	V       int             `json:"v"`
	State   backends.State  `json:"state"`        // in the folder cool: always cooling
	ID      string          `json:"id,omitempty"` // in the folder held
	Mode    backends.Mode   `json:"mode"`
	Slots   int             `json:"slots,omitempty"`
	Owner   backends.Owner  `json:"owner"`
	Asked   time.Time       `json:"asked"`
	Granted time.Time       `json:"granted,omitzero"`
	TTL     int64           `json:"ttl,omitempty"`     // of the hold, in seconds, as it was asked of etcd
	Rank    int64           `json:"rank,omitempty"`    // of one who waited: see names.ranked
	Slot    int             `json:"slot,omitempty"`    // of the hold
	Run     string          `json:"run,omitempty"`     // that the hold is for
	Keep    string          `json:"keep,omitempty"`    // how long its success is kept; empty: for ever
	MinHold string          `json:"minhold,omitempty"` // as asked
	Notice  backends.Notice `json:"notice,omitzero"`
}

// claim is a record and what etcd says of it.
type claim struct {
	record
	key         string // etcd's
	id          string
	create, mod int64
	lease       clientv3.LeaseID
	token       backends.Token // the revision of its grant; 0: it waits, or that isn't known
}

// run is the JSON of a last run.
type run struct {
	V int `json:"v"`
	backends.Run
}

// encode is v as JSON; v is one of our own plain types.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("etcd: %v", err))
	}
	return string(text)
}

// decodeClaim reads a claim, and refuses what isn't one of ours.
func decodeClaim(kv *mvccpb.KeyValue) (*claim, error) {
	p, err := placeOf(string(kv.Key))
	if err != nil {
		return nil, err
	}
	c := &claim{key: p.key, id: p.id, create: kv.CreateRevision, mod: kv.ModRevision, lease: clientv3.LeaseID(kv.Lease)}
	if err := decode(kv, &c.record); err != nil {
		return nil, err
	}
	if c.State == "" || c.Mode != p.mode || c.Slots != p.slots {
		return nil, foreign(p.key)
	}
	if c.State == backends.Cooling { // the grant made it
		c.token = backends.Token(c.create)
	}
	return c, nil
}

// decodeHold reads what the grant has put into the folder held.
func decodeHold(kv *mvccpb.KeyValue) (*claim, error) {
	c := &claim{key: string(kv.Key), create: kv.CreateRevision, mod: kv.ModRevision, lease: clientv3.LeaseID(kv.Lease)}
	if err := decode(kv, &c.record); err != nil {
		return nil, err
	}
	if c.id = c.ID; !isID(c.id) || c.State != backends.Holding {
		return nil, foreign(c.key)
	}
	c.token = backends.Token(c.create)
	return c, nil
}

// decode reads a record into v, and refuses that of a newer flockd.
func decode(kv *mvccpb.KeyValue, v any) error {
	var head struct {
		V int `json:"v"`
	}
	if json.Unmarshal(kv.Value, &head) != nil || head.V < 1 {
		return foreign(string(kv.Key))
	}
	if head.V > backends.RecordVersion {
		return backends.Refuse("use the newer flockd here as well",
			"the etcd key %s was written by a newer flockd (record version %d, this one knows %d)",
			kv.Key, head.V, backends.RecordVersion)
	}
	if json.Unmarshal(kv.Value, v) != nil {
		return foreign(string(kv.Key))
	}
	return nil
}

// foreign refuses what somebody else has put where our records are. To take it for a
// claim would stop the line for good, and to pass over it could grant the key twice.
func foreign(key string) error {
	const longest = 3*backends.MaxKey + 200 // an escaped key, and what they have added
	if len(key) > longest {
		key = key[:longest] + "…"
	}
	return backends.Refuse("remove it, or keep flockd's keys apart with ?prefix=", "the etcd key %q is none of flockd's", key)
}

// public is the claim as others see it. Of those that end, only when one that cools does is in
// the record.
func (c *claim) public() backends.Claim {
	p := backends.Claim{
		ID: c.id, State: c.State, Mode: c.Mode, Slots: c.Slots, Slot: c.Slot, Token: c.token, Owner: c.Owner,
		Asked: c.Asked, Granted: c.Granted, Notice: c.Notice,
	}
	if minHold, err := time.ParseDuration(c.MinHold); err == nil && c.State == backends.Cooling {
		p.Expires = c.Granted.Add(minHold)
	}
	if c.State == backends.Holding {
		p.TTL = time.Duration(c.TTL) * time.Second
	}
	return p
}

// keep is how long the success of the claim's run is kept; zero: for ever.
func (r record) keep() time.Duration {
	keep, _ := time.ParseDuration(r.Keep)
	return keep
}

// mayHold reports whether the claim may be granted the key when its turn comes.
func (c *claim) mayHold() bool {
	return c.State == backends.Waiting && c.Notice == backends.Notice{}
}

// asked reports whether the claim waits and was left a notice: it is told of the line.
func (c *claim) asked() bool {
	return c != nil && c.State == backends.Waiting && c.Notice != backends.Notice{}
}

// samePlace reports whether both are the same claim, which has one place all its life; or both
// are none.
func (c *claim) samePlace(other *claim) bool {
	return c == other || c != nil && other != nil && c.create == other.create
}
