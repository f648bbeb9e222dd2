package etcd

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// record is the JSON of a claim. Times are by its client's clock.
type record struct {
	V       int             `json:"v"`
	State   backends.State  `json:"state"` // in the folder cool: always cooling
	Mode    backends.Mode   `json:"mode"`
	Slots   int             `json:"slots,omitempty"`
	Owner   backends.Owner  `json:"owner"`
	Asked   time.Time       `json:"asked"`
	Granted time.Time       `json:"granted,omitzero"`
	TTL     int64           `json:"ttl,omitempty"`     // of the hold, in seconds, as it was asked of etcd
	Token   backends.Token  `json:"token,omitempty"`   // in the folder cool, and there only if the claim had waited: its create revision
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
	key := string(kv.Key)
	c := &claim{
		key: key, id: key[strings.LastIndexByte(key, '/')+1:],
		create: kv.CreateRevision, mod: kv.ModRevision, lease: clientv3.LeaseID(kv.Lease),
	}
	if !isID(c.id) {
		return nil, foreign(key)
	}
	if err := decode(kv, &c.record); err != nil {
		return nil, err
	}
	if c.State == "" || c.Mode == "" {
		return nil, foreign(key)
	}
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

// token is the claim's fencing token: its create revision, which is its place in line.
func (c *claim) token() backends.Token {
	if c.Token != 0 {
		return c.Token
	}
	return backends.Token(c.create)
}

// public is the claim as others see it.
func (c *claim) public() backends.Claim {
	b := backends.Claim{
		ID: c.id, State: c.State, Mode: c.Mode, Slots: c.Slots, Owner: c.Owner,
		Asked: c.Asked, Granted: c.Granted, Notice: c.Notice,
	}
	if c.State != backends.Waiting {
		b.Token = c.token()
	}
	return b
}
