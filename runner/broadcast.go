package runner

import (
	"syscall"
	"time"
)

// apart is how much later than us the guard may get what was sent to every process of a
// unit: systemd takes 0.1 ms for a few, and on a host where the guard doesn't run before
// others that may have to wait for its turn. So much later than sent to us the
// command gets what was sent to us alone.
const apart = 50 * time.Millisecond

// broadcast tells what was sent to each process of a unit, or of a tree, from what was
// sent to us alone, and has to be passed on. The guard is in no group of the command's and
// no key of a terminal sends it anything: what comes to both of us has come to the
// command. Times are readings of one clock.
type broadcast struct {
	ours   []arrival // that may yet come to the guard
	guards []arrival // that may yet come to us
}

// arrival is a signal and when it came.
type arrival struct {
	sig syscall.Signal
	at  time.Duration
}

// toUs takes a signal that came to us at now.
func (b *broadcast) toUs(sig syscall.Signal, now time.Duration) { meet(&b.ours, &b.guards, sig, now) }

// toGuard takes one that came to the guard.
func (b *broadcast) toGuard(sig syscall.Signal, now time.Duration) {
	meet(&b.guards, &b.ours, sig, now)
}

// meet drops an arrival with its like among the others, or adds it to its own.
func meet(own, others *[]arrival, sig syscall.Signal, now time.Duration) {
	for i, other := range *others {
		if other.sig == sig && now < other.at+apart {
			*others = append((*others)[:i:i], (*others)[i+1:]...)
			return
		}
	}
	*own = append(*own, arrival{sig, now})
}

// due are the signals that have come to us alone, as is known at now.
func (b *broadcast) due(now time.Duration) (sigs []syscall.Signal) {
	for len(b.ours) > 0 && now >= b.ours[0].at+apart {
		sigs = append(sigs, b.ours[0].sig)
		b.ours = b.ours[1:]
	}
	for len(b.guards) > 0 && now >= b.guards[0].at+apart {
		b.guards = b.guards[1:]
	}
	return sigs
}

// next is when due has to be asked next.
func (b *broadcast) next() time.Duration {
	if len(b.ours) == 0 {
		return never
	}
	return b.ours[0].at + apart
}
