package etcd

import (
	"sync"
	"time"
)

// memory is what this client knows of the claims that it made. All of it may be out of
// date: it saves requests where it isn't, and what is done by it is done on
// condition that the claim is unmoved.
type memory struct {
	mu sync.Mutex
	of map[string]known // by ID
}

// known is what is known of one claim.
type known struct {
	claim    *claim // as last read or written; nil: never
	heard    int64  // its holder has heard of all that was done to it up to this revision; 0: of nothing
	disowned int    // how many times its leases were to be revoked
	woken    bool   // something has happened since the last question, perhaps its turn has come
	last     bool   // one was in its way when it last asked, and nobody like that came after it
	ear      *ear   // that listens for that; nil: none

	hold     term      // the lease of a hold to come; zero: none was made
	prepared time.Time // when that was last made to last
}

// recall is the zero known for an ID that nothing is known of.
func (m *memory) recall(id string) known {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[id]
}

// note changes what is known of id.
func (m *memory) note(id string, change func(*known)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.of[id]
	change(&k)
	m.of[id] = k
}

// saw notes the claim as it is.
func (m *memory) saw(c *claim) { m.note(c.id, func(k *known) { k.claim = c }) }

// heard notes that the holder of id has heard of all that was done to it up to revision rev.
func (m *memory) heard(id string, rev int64) { m.note(id, func(k *known) { k.heard = rev }) }

func (m *memory) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[id].ear.close()
	delete(m.of, id)
}
