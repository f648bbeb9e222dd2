package etcd

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"flockd/backends"
)

// names are the etcd keys of one flockd key. All but the last two are folders: they end in '/'.
type names struct {
	line, held, cool, order, ended, done string
	last, success                        string
}

func (s *Store) names(key string) names {
	of := func(kind string) string { return s.prefix + "/" + kind + "/" + backends.Escape(key) + "/" }
	return names{
		line: of("line"), held: of("held"), cool: of("cool"), order: of("order"), ended: of("ended"), done: of("done"),
		last: of("runs") + "last", success: of("runs") + "success",
	}
}

// A claim's name in the folders line and cool tells its mode, so that who is in whose way
// can be asked for without reading it: the ID of an exclusive one, which is
// hexadecimal; before those of the others stands a tag, and behind one of N slots N.
const (
	slotsTag  = "n-"
	sharedTag = "s-" // last in order
)

func nameOf(mode backends.Mode, slots int, id string) string {
	switch mode {
	case backends.Shared:
		return sharedTag + id
	case backends.Slots:
		return slotsTag + id + "-" + strconv.Itoa(slots)
	}
	return id
}

// place is what a name tells.
type place struct {
	key   string // etcd's
	id    string
	mode  backends.Mode
	slots int
}

// placeOf reads the name of a claim, the last part of its key, and refuses what isn't one.
func placeOf(key string) (place, error) {
	name := key[strings.LastIndexByte(key, '/')+1:]
	p := place{key: key, id: name, mode: backends.Exclusive}
	if id, ok := strings.CutPrefix(name, sharedTag); ok {
		p.id, p.mode = id, backends.Shared
	} else if rest, ok := strings.CutPrefix(name, slotsTag); ok {
		id, n, _ := strings.Cut(rest, "-")
		p.id, p.mode = id, backends.Slots
		p.slots, _ = strconv.Atoi(n)
	}
	if !isID(p.id) || nameOf(p.mode, p.slots, p.id) != name || p.mode == backends.Slots && p.slots < 1 {
		return place{}, foreign(key)
	}
	return p, nil
}

// span is a range of keys, from the first up to the one before end.
type span struct{ first, end string }

func all(folder string) span { return span{folder, clientv3.GetPrefixRangeEnd(folder)} }

// unshared are the claims in a folder that aren't Shared.
func unshared(folder string) span { return span{folder, folder + sharedTag} }

// get asks for the keys of the span.
func (s span) get(options ...clientv3.OpOption) clientv3.Op {
	return clientv3.OpGet(s.first, append(options, clientv3.WithRange(s.end))...)
}

// created compares: the create revision of every key in the span is so.
func (s span) created(is string, rev int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(s.first).WithRange(s.end), is, rev)
}

// empty compares: nothing is in the span.
func (s span) empty() clientv3.Cmp { return s.created("=", 0) }

// find asks for the claim of id in the folder, whatever number of slots it is for.
func find(folder string, mode backends.Mode, id string) clientv3.Op {
	if mode == backends.Slots {
		return clientv3.OpGet(folder+slotsTag+id+"-", clientv3.WithPrefix())
	}
	return clientv3.OpGet(folder + nameOf(mode, 0, id))
}

// modes are all there are.
var modes = [...]backends.Mode{backends.Exclusive, backends.Shared, backends.Slots}

// nowhere compares: the folder has no claim of id, of any mode.
func nowhere(folder, id string) []clientv3.Cmp {
	return append(absent(folder+id, folder+sharedTag+id), all(folder+slotsTag+id+"-").empty())
}

// holds is the key of the hold of id: its own, or its slot's.
func (n names) holds(mode backends.Mode, slot int, id string) string {
	if mode == backends.Slots {
		return n.held + strconv.Itoa(slot)
	}
	return n.held + id
}

// ranked is the key by which the place of id is counted, whose client had last read the line as of
// revision rank.
func (n names) ranked(rank int64, id string) string {
	return fmt.Sprintf("%s%016x-%s", n.order, rank, id)
}

// completed is the key of a run that has succeeded.
func (n names) completed(run string) string { return n.done + backends.Escape(run) }

// fence is the key of a resource of the register: a key of flockd's may have the same name.
func (s *Store) fence(resource string) string {
	return s.prefix + "/fence/" + backends.Escape(resource)
}

// isID reports whether id is one of backends.NewID's: what else is in a line's
// folder isn't ours.
func isID(id string) bool {
	b, err := hex.DecodeString(id)
	return err == nil && len(b) == 16 && hex.EncodeToString(b) == id
}
